package prover

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"landfall/appliance/architecture"
	"landfall/appliance/mirror"
	"landfall/appliance/release"
)

// Payloads reads release payloads; *release.Library implements it.
type Payloads interface {
	Payload(ctx context.Context, pullSpec, arch string, secret authn.Keychain) (*release.Payload, error)
}

// ReleaseRequest selects the release to check, and the kind of cluster.
type ReleaseRequest struct {
	PullSpec string
	// Architecture is the architecture of the hosts, in RPM's or Go's spelling. "" and multi mean
	// all architectures of the release.
	Architecture string
	// Platform is the cluster's platform (baremetal, none, vsphere, nutanix, external), or "" if it
	// is not known.
	Platform string
	Secret   authn.Keychain
	Client   *mirror.Client // as in Request
	// Also lists images that are not part of the release, such as the site's own agent.
	Also []string
	// Signatures, Bytes and Fresh are passed to Request.
	Signatures, Bytes, Fresh bool
}

// ReleaseReport is a Report with the properties of the release.
type ReleaseReport struct {
	Report
	PullSpec     string `json:"pull_spec"`
	Digest       string `json:"digest,omitempty"`
	Version      string `json:"version,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// Unread is true if the release image is not available, so that its components are not known.
	Unread bool `json:"unread,omitempty"`
}

// ReleaseImageName is the name of the release image in a report.
const ReleaseImageName = "release image"

// Release checks the release image and then all images that it refers to. The error is that of the
// context, of reading the payload, or of Options.Proven. Problems of the mirror are part of the
// report.
func Release(ctx context.Context, p *Prover, payloads Payloads, request ReleaseRequest,
	progress func(Progress)) (*ReleaseReport, error) {
	own := Image{Ref: request.PullSpec, Names: []string{ReleaseImageName}}
	wanted := Request{Images: []Image{own}, Architectures: architectures(request.Architecture), Secret: request.Secret,
		Client: request.Client, Fresh: request.Fresh}
	first, err := p.Prove(ctx, wanted, nil)
	if err != nil {
		return nil, err
	}
	report := &ReleaseReport{Report: *first, PullSpec: request.PullSpec, Digest: first.Results[0].Digest,
		Architecture: request.Architecture}
	if first.Results[0].Status != Held {
		report.Unread = true
		return report, nil
	}
	payload, err := payloads.Payload(ctx, request.PullSpec, request.Architecture, request.Secret)
	if err != nil {
		return nil, err
	}
	wanted.Images = append([]Image{{Ref: payload.Image, Names: own.Names}}, Components(payload.Images,
		request.Platform)...)
	for _, ref := range request.Also {
		if ref != "" && !slices.ContainsFunc(wanted.Images, func(i Image) bool { return i.Ref == ref }) {
			wanted.Images = append(wanted.Images, Image{Ref: ref})
		}
	}
	wanted.Signatures, wanted.Bytes = request.Signatures, request.Bytes
	all, err := p.Prove(ctx, wanted, progress)
	if err != nil {
		return nil, err
	}
	all.Started, all.Took, all.Requests = first.Started, all.Took+first.Took, all.Requests+first.Requests
	report.Report, report.Digest, report.Version, report.Architecture = *all, payload.Digest, payload.Version,
		payload.Architecture
	return report, nil
}

func architectures(arch string) []string {
	if arch == "" || arch == string(architecture.Multi) {
		return nil
	}
	return []string{architecture.Of(arch).Go()}
}

// Components returns the images of a payload without duplicates. An image is optional if no node of
// a cluster on this platform runs it. The list of optional images is short on purpose: the check of
// an unnecessary image costs little, but a missing image makes an installation fail.
func Components(images map[string]string, platform string) []Image {
	var list []Image
	at := map[string]int{}
	for _, tag := range slices.Sorted(maps.Keys(images)) {
		ref := images[tag]
		i, known := at[ref]
		if !known {
			i = len(list)
			at[ref] = i
			list = append(list, Image{Ref: ref, Optional: true})
		}
		list[i].Names = append(list[i].Names, tag)
		list[i].Optional = list[i].Optional && optional(tag, platform)
	}
	return list
}

// optional reports whether an image is for people, builds, tests, or clouds other than the
// cluster's platform.
func optional(tag, platform string) bool {
	switch tag {
	case "installer-artifacts", "baremetal-installer", "oc-mirror", "tests", "installer-altinfra",
		"installer-kube-apiserver-artifacts":
		return true
	}
	clouds := []string{"aws", "azure", "gcp", "ibm", "ibmcloud", "powervs", "alibaba", "ovirt", "openstack", "kubevirt",
		"libvirt", "vsphere", "nutanix"}
	for _, cloud := range clouds {
		if strings.HasPrefix(tag, cloud+"-") && platform != "" && platform != cloud && platform != "external" {
			return true
		}
	}
	return false
}
