package python

var Decode = (*Result).decode
