"""Package data: model layouts, name -> (dtype, shape), as JSON."""
