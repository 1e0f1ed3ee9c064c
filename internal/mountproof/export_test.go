package mountproof

// TellMounts is what is run inside.
const TellMounts = tellMounts
