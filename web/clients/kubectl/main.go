// Command kubectl is Kubernetes' own kubectl, of the version that the appliance's API is made of.
// Tests run it against that API. It is a program of its own because its packages take long to
// initialize, which every program that is started by tests would pay for.
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
