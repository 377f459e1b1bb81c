package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/simulate/installer"
	"landfall/isogen/skeleton"
)

// Repositories of OpenShift's releases, and their paths on a mirror of oc-mirror v2.
const (
	releaseSource   = "quay.io/openshift-release-dev/ocp-release"
	componentSource = "quay.io/openshift-release-dev/ocp-v4.0-art-dev"
	releaseMirror   = "openshift/release-images"
	componentMirror = "openshift/release"
)

// StandInLabel marks every image of a simulated payload, because none contains OpenShift.
const StandInLabel = "landfall.stand-in"

// installerTag is the payload image with openshift-install.
const installerTag = "installer"

// machineOSImagesTag is the payload image with the live ISO.
const machineOSImagesTag = "machine-os-images"

// payloadTags returns the images of a simulated payload: the images that the appliance and an
// installation use. A real payload has about 190 images.
func payloadTags() []string {
	return []string{
		"agent-installer-api-server", "agent-installer-csr-approver", "agent-installer-node-agent",
		"agent-installer-orchestrator",
		"cli", "cluster-version-operator", "etcd", installerTag, "machine-config-operator", machineOSImagesTag,
		"must-gather", "rhel-coreos",
	}
}

// Payload describes a small release payload in the format of a real payload. The openshift-install
// of its installer image is a launcher of the package installer.
type Payload struct {
	Version      string // "" for 4.20.8-standin
	Architecture string // RPM's spelling; "" for x86_64
	OSVersion    string // version of the CoreOS boot images; "" for 9.6.20251023-0
	Installer    string // content of openshift-install; "" for the launcher
	Faults       PayloadFaults
}

// PayloadFaults are faults of a payload, for tests.
type PayloadFaults struct {
	Omit              []string // tags missing from image-references
	NotPushed         []string // tags whose image is missing in the mirror
	Truncated         []string // tags whose layer is truncated in the middle of a file
	NoImageReferences bool     // the release image is an ordinary image
	NoInstaller       bool     // the installer image does not contain openshift-install
}

// Pushed describes a payload in a registry.
type Pushed struct {
	Release        string            // pull spec of the release by digest, in the release's original repository
	Digest         string            // digest of the release image
	Version        string            // version in the payload
	Images         map[string]string // tag -> pull spec by digest, in the components' original repository
	IDMS           []byte            // ImageDigestMirrorSet in the format of oc-mirror's idms-oc-mirror.yaml
	RegistriesConf []byte            // the same rules for registries.conf
}

// PushPayload builds the payload's images and pushes them to the registry at host (host:port, plain
// HTTP on loopback) in the layout of oc-mirror v2. Equal payloads have equal digests.
func PushPayload(ctx context.Context, host string, p Payload) (*Pushed, error) {
	p = p.withDefaults()
	pushed, err := p.pushTo(ctx, remoteRegistry(host))
	if err != nil {
		return nil, err
	}
	pushed.RegistriesConf = mirrorRules(host)
	pushed.IDMS, err = digestMirrorSet(host)
	return pushed, err
}

// pushTo builds the payload's images and pushes them.
func (p Payload) pushTo(ctx context.Context, to destination) (*Pushed, error) {
	pushed := &Pushed{Version: p.Version, Images: map[string]string{}}
	for _, tag := range payloadTags() {
		img, err := p.component(tag)
		if err != nil {
			return nil, fmt.Errorf("create payload image %s: %w", tag, err)
		}
		digest, err := img.Digest()
		if err != nil {
			return nil, fmt.Errorf("create payload image %s: %w", tag, err)
		}
		if !slices.Contains(p.Faults.Omit, tag) {
			pushed.Images[tag] = componentSource + "@" + digest.String()
		}
		if slices.Contains(p.Faults.NotPushed, tag) {
			continue
		}
		if err := to.push(ctx, img, componentMirror, fmt.Sprintf("%s-%s-%s", p.Version, p.Architecture,
			tag)); err != nil {
			return nil, err
		}
	}
	img, err := p.release(pushed.Images)
	if err != nil {
		return nil, fmt.Errorf("create the release image: %w", err)
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, fmt.Errorf("create the release image: %w", err)
	}
	pushed.Digest, pushed.Release = digest.String(), releaseSource+"@"+digest.String()
	return pushed, to.push(ctx, img, releaseMirror, p.Version+"-"+p.Architecture)
}

func (p Payload) withDefaults() Payload {
	if p.Version == "" {
		p.Version = "4.20.8-standin"
	}
	if p.Architecture == "" {
		p.Architecture = "x86_64"
	}
	if p.OSVersion == "" {
		p.OSVersion = "9.6.20251023-0"
	}
	return p
}

// destination takes images.
type destination interface {
	push(ctx context.Context, img v1.Image, repository, tag string) error
}

// remoteRegistry is a registry at host:port.
type remoteRegistry string

func (r remoteRegistry) push(ctx context.Context, img v1.Image, repository, tag string) error {
	return push(ctx, img, string(r)+"/"+repository+":"+tag)
}

func push(ctx context.Context, img v1.Image, ref string) error {
	tag, err := name.ParseReference(ref, name.Insecure)
	if err != nil {
		return err
	}
	if err := remote.Write(tag, img, remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	return nil
}

// component returns one image with a shared layer and a layer of its own.
func (p Payload) component(tag string) (v1.Image, error) {
	files := []layerFile{textFile("usr/share/"+tag+"/README", "A stand-in for the image "+
		tag+" of an OpenShift release.\n")}
	if tag == installerTag && !p.Faults.NoInstaller {
		files = append(files, layerFile{name: "usr/bin/" + "openshift-install", mode: 0o755,
			text: cmp.Or(p.Installer, installer.Launcher())})
	}
	if tag == machineOSImagesTag {
		iso, err := p.liveISO()
		if err != nil {
			return nil, err
		}
		files = append(files, iso...)
	}
	layer := newFileLayer
	if slices.Contains(p.Faults.Truncated, tag) {
		layer = truncatedLayer
	}
	own, err := layer(files...)
	if err != nil {
		return nil, err
	}
	return p.image("Stand-in for "+tag, own)
}

// liveISO returns the content of machine-os-images: the ISO and its digest.
func (p Payload) liveISO() ([]layerFile, error) {
	var iso bytes.Buffer
	if err := skeleton.Write(&iso, skeleton.ISO{VolumeID: "rhcos-" + p.OSVersion, Architecture: p.Architecture,
		RootFSSize: payloadRootFS}); err != nil {
		return nil, err
	}
	name := "coreos/coreos-" + p.Architecture + ".iso"
	sum := sha256.Sum256(iso.Bytes())
	return []layerFile{textFile(name, iso.String()), textFile(name+".sha256", hex.EncodeToString(sum[:])+"\n")}, nil
}

// payloadRootFS is the size of the live system in a payload's live ISO, in bytes.
const payloadRootFS = 256 << 10

// release returns the release image. Its last layer contains only release-manifests/.
func (p Payload) release(images map[string]string) (v1.Image, error) {
	files := []layerFile{textFile("release-manifests/0000_00_cluster-version-operator_00_namespace.yaml",
		"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: openshift-cluster-version\n")}
	for name, make := range map[string]func() ([]byte, error){
		"release-metadata":                         p.metadata,
		"0000_50_installer_coreos-bootimages.yaml": p.bootImages,
		"image-references":                         func() ([]byte, error) { return p.imageReferences(images) },
	} {
		if name == "image-references" && p.Faults.NoImageReferences {
			continue
		}
		data, err := make()
		if err != nil {
			return nil, err
		}
		files = append(files, textFile("release-manifests/"+name, string(data)))
	}
	slices.SortFunc(files, func(a, b layerFile) int { return strings.Compare(a.name, b.name) })
	layer, err := newFileLayer(files...)
	if err != nil {
		return nil, err
	}
	return p.image("Stand-in for an OpenShift release", layer)
}

func (p Payload) image(description string, last v1.Layer) (v1.Image, error) {
	base, err := newFileLayer(textFile("etc/os-release", "NAME=\"Stand-in\"\nVERSION_ID=\""+p.OSVersion+"\"\n"))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(emptyImage(), base, last)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[p.Architecture]
	if config.Architecture == "" {
		config.Architecture = p.Architecture
	}
	config.Config.Labels = map[string]string{StandInLabel: "true", "io.openshift.release": p.Version,
		"io.k8s.description": description}
	return mutate.ConfigFile(img, config)
}

// imageReferences returns an ImageStream with a tag for each component.
func (p Payload) imageReferences(images map[string]string) ([]byte, error) {
	type tag struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
		From        map[string]string `json:"from"`
	}
	var tags []tag
	for _, name := range payloadTags() {
		if spec, ok := images[name]; ok {
			tags = append(tags, tag{Name: name, Annotations: map[string]string{StandInLabel: "true"},
				From: map[string]string{"kind": "DockerImage", "name": spec}})
		}
	}
	return json.MarshalIndent(map[string]any{
		"kind": "ImageStream", "apiVersion": "image.openshift.io/v1",
		"metadata": map[string]any{"name": p.Version},
		"spec":     map[string]any{"lookupPolicy": map[string]any{"local": false}, "tags": tags},
	}, "", "  ")
}

func (p Payload) metadata() ([]byte, error) {
	return json.MarshalIndent(map[string]any{
		"kind": "cincinnati-metadata-v0", "version": p.Version, "previous": []string{},
		"metadata": map[string]string{"description": "stand-in"},
	}, "", "  ")
}

// bootImages returns the ConfigMap that contains the CoreOS images as stream metadata.
func (p Payload) bootImages() ([]byte, error) {
	stream, err := json.MarshalIndent(map[string]any{
		"stream": "rhel-9.6",
		"architectures": map[string]any{p.Architecture: map[string]any{"artifacts": map[string]any{
			"metal": map[string]any{
				"release": p.OSVersion,
				"formats": map[string]any{"iso": map[string]any{"disk": map[string]any{
					"location": fmt.Sprintf("https://rhcos.invalid/rhcos-%s-live-iso.%s.iso", p.OSVersion,
						p.Architecture),
					"sha256": strings.Repeat("0", 64),
				}}},
			}}}},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(installer.Object("v1", "ConfigMap", "openshift-machine-config-operator", "coreos-bootimages",
		map[string]any{"data": map[string]any{"releaseVersion": p.Version, "stream": string(stream)}}))
}

// digestMirrorSet returns the file that oc-mirror v2 writes to cluster-resources for a release.
func digestMirrorSet(host string) ([]byte, error) {
	set := installer.Object("config.openshift.io/v1", "ImageDigestMirrorSet", "", "idms-release-0",
		map[string]any{"spec": map[string]any{"imageDigestMirrors": []map[string]any{
			{"source": componentSource, "mirrors": []string{host + "/" + componentMirror}},
			{"source": releaseSource, "mirrors": []string{host + "/" + releaseMirror}},
		}}})
	data, err := yaml.Marshal(set)
	return append([]byte("---\n"), data...), err
}

// mirrorRules returns mirror rules for registries.conf. They allow plain HTTP, which a mirror set
// cannot express, and block the source, so that no request waits for a network.
func mirrorRules(host string) []byte {
	var b strings.Builder
	for _, rule := range [][2]string{{componentSource, componentMirror}, {releaseSource, releaseMirror}} {
		fmt.Fprintf(&b, "[[registry]]\nlocation = %q\nblocked = true\nmirror-by-digest-only = "+
			"true\n\n[[registry.mirror]]\nlocation = %q\ninsecure = true\n\n",
			rule[0], host+"/"+rule[1])
	}
	return []byte(b.String())
}
