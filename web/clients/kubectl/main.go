// Command kubectl is Kubernetes' own kubectl, in the version of the libraries of the appliance's
// API. Tests run it against that API. It is a separate program, because its packages would slow
// down the start of every test program that imports them.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	os.Exit(0)
}
