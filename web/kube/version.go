package kube

import (
	"runtime"
	"strconv"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
)

// version returns the version of Kubernetes that the API reports. Clients derive features from it.
// It is the version of the libraries, which only release builds contain.
type version struct{ compatibility.EffectiveVersion }

func (v version) Info() *apiversion.Info {
	binary := v.BinaryVersion()
	return &apiversion.Info{
		Major: strconv.FormatUint(uint64(binary.Major()), 10), Minor: strconv.FormatUint(uint64(binary.Minor()), 10),
		GitVersion: "v" + strconv.FormatUint(uint64(binary.Major()), 10) + "." +
			strconv.FormatUint(uint64(binary.Minor()), 10) + ".0",
		GitTreeState: "clean", GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
