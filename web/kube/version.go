package kube

import (
	"runtime"
	"strconv"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
)

// version reports the version of Kubernetes from which clients derive the features of the API. It
// is the minor version of the libraries. Their full version is set only in release builds of
// Kubernetes.
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
