package appliance

import (
	"context"
	"net/http"

	"landfall/appliance/engine"
	"landfall/web/image"
	"landfall/web/problem"
)

// scriptAlways is the ipxe_script_type of a script that boots the discovery image whatever became of the host.
const scriptAlways = "discovery-image-always"

// Script implements image.Source.
func (d *discoveryImages) Script(context.Context, image.Script) ([]byte, error) {
	return nil, problem.New(http.StatusNotImplemented, "scripts are not made yet")
}

// kernelCommandLine is what the kernel is started with over the network.
func (d *discoveryImages) kernelCommandLine(recipe *engine.Recipe, _ image.Network) (string, error) {
	base, err := d.bases.find(recipe.OpenshiftVersion, recipe.CPUArchitecture)
	if err != nil {
		return "", err
	}
	return base.KernelArguments(kernelArguments(recipe)...)
}
