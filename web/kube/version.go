package kube

import (
	"runtime"
	"strconv"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
)

// version returns the version of Kubernetes that the API reports, from which clients derive its
// features: that of the libraries. They know it only in release builds.
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
