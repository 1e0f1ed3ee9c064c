package codeblock

var CheckResult = checkResult
