// Landfall installs OpenShift clusters where there is no internet: see README.md.
package main

import (
	"os"

	"landfall/appliance/command"
)

func main() { os.Exit(command.Execute(os.Args[1:])) }
