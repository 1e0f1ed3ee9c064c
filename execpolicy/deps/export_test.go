package deps

var Reason = reason
