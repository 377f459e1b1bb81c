package kube

import (
	"runtime"
	"strconv"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
)

// version is the version of Kubernetes that the API says it is, so that clients can tell what it
// can do: that of the libraries, which know it only where a release's build tells them.
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
