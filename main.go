// Landfall installs OpenShift clusters at sites without access to the internet. See README.md.
package main

import (
	"os"

	"landfall/appliance/command"
)

func main() { os.Exit(command.Execute(os.Args[1:])) }
