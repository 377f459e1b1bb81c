package discovery

import (
	"errors"
	"io/fs"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/recipe"
	"landfall/appliance/fault"
	"landfall/appliance/osimage"
	"landfall/isogen"
)

// Checker checks whether recipes fit into the base ISOs. It implements engine.BaseImages.
type Checker struct{ Bases *osimage.Library }

// Check builds the images of a recipe, which takes milliseconds, and returns the first error. It
// returns nil if the base ISO is missing.
func (c Checker) Check(version, arch string, recipe *recipe.Recipe) error {
	base, err := c.Bases.Find(version, arch)
	if err != nil {
		return nil // not available yet
	}
	if _, err := build(base, Full, recipe, ""); err != nil {
		return err
	}
	if kindOf(recipe.Type) == Minimal {
		_, err = build(base, Minimal, recipe, longestURL)
	}
	return err
}

// longestURL represents the URL of the rootfs, which is unknown when a recipe is checked. Its host
// name is long, so that the real URL fits as well.
const longestURL = "http://landfall.example.example.example.com:65535/byid/00000000-0000-0000-0000-000000000000/4.20.0/x86_64/rootfs.img"

func kindOf(kind models.ImageType) Kind {
	if kind == models.ImageTypeMinimalIso {
		return Minimal
	}
	return Full
}

// build builds an image of an infra-env.
func build(base *isogen.Base, kind Kind, recipe *recipe.Recipe, rootFSURL string) (*isogen.Image, error) {
	config := isogen.Payload{Ignition: recipe.Embedded()}
	whole := config
	for _, file := range recipe.Files {
		whole.Files = append(whole.Files, isogen.File{Path: file.Path, Mode: fs.FileMode(file.Mode), Data: file.Data})
	}
	arguments := kernelArguments(recipe)
	switch kind {
	case Full:
		if len(recipe.Pointer) > 0 {
			config = whole // the machine fetches its config over the network
		}
		return base.Full(config, arguments...)
	case Minimal:
		if recipe.WithoutNetwork != "" {
			return nil, fault.New(fault.Conflict, "%s", recipe.WithoutNetwork)
		}
		return base.Minimal(whole, rootFSURL, arguments...)
	case Initrd:
		return base.Initrd(whole)
	case InitrdAddrSize:
		return base.InitrdAddrSize(whole)
	case Config:
		return isogen.ConfigImage(config)
	}
	return nil, fault.New(fault.NotFound, "an infra-env has no %s", kind)
}

// buildBootFile builds a boot file that depends only on the base ISO.
func buildBootFile(base *isogen.Base, kind Kind) (*isogen.Image, error) {
	switch kind {
	case Kernel:
		return base.Kernel()
	case RootFS:
		return base.Rootfs()
	case InsFile:
		return base.InsFile()
	}
	return nil, fault.New(fault.NotFound, "a base ISO has no %s", kind)
}

func kernelArguments(recipe *recipe.Recipe) []isogen.KernelArgument {
	var arguments []isogen.KernelArgument
	for _, a := range recipe.KernelArguments {
		arguments = append(arguments, isogen.KernelArgument{Operation: isogen.Operation(a.Operation), Value: a.Value})
	}
	return arguments
}

// classify returns an error of kind Conflict if a recipe does not fit its base ISO.
func classify(err error) error {
	var minimal *isogen.NoMinimalError
	var tooLarge *isogen.TooLargeError
	var arguments *isogen.KernelArgumentError
	var netboot *isogen.NetworkBootError
	if errors.As(err, &minimal) || errors.As(err, &netboot) || errors.As(err, &tooLarge) || errors.As(err, &arguments) {
		return fault.Wrap(fault.Conflict, err)
	}
	return err
}
