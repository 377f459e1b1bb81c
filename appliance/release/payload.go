package release

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/architecture"
)

// Tags of payload images that the appliance and the hosts' agents use by name.
const (
	TagInstaller             = "installer"
	TagInstallerArtifacts    = "installer-artifacts"
	TagMachineConfigOperator = "machine-config-operator"
	TagMustGather            = "must-gather"
	TagAgent                 = "agent-installer-node-agent"
	TagHostInstaller         = "agent-installer-orchestrator"
	TagController            = "agent-installer-csr-approver"
	TagCoreOS                = "rhel-coreos" // the operating system of the nodes
)

// Files of a payload, written by `oc adm release new`.
const (
	imageReferencesFile  = "release-manifests/image-references"
	releaseMetadataFile  = "release-manifests/release-metadata"
	coreOSBootImagesFile = "release-manifests/0000_50_installer_coreos-bootimages.yaml"
)

// manifestLimit limits the size of one file of a payload in bytes. Real image-references have about
// 100 KiB, boot images 60 KiB.
const manifestLimit = 32 << 20

// Payload holds the metadata of a release image. Callers share it and must not change it.
type Payload struct {
	PullSpec     string // as the caller requested it
	Image        string // repository@digest in the release's own repository, even if a mirror served the image
	Digest       string // of the image; of the index if the payload is Multi
	Version      string // from release-metadata, such as 4.20.8
	Architecture string // x86_64, aarch64, ppc64le or s390x: the architecture that was read
	Multi        bool   // the payload serves several architectures
	OSVersion    string // of the CoreOS boot images for Architecture; "" if the payload names none
	// OSStreams maps each CoreOS stream (rhel-9, rhel-10) to its OS version; nil if the payload has
	// only one stream.
	OSStreams map[string]string
	Images    map[string]string // payload tag -> pull spec
	ServedBy  string            // the reference from which the payload was read: a mirror's or the source's
}

// Component returns the pull spec of the payload image with the tag, or a *MissingImageError.
func (p *Payload) Component(tag string) (string, error) {
	if spec, ok := p.Images[tag]; ok {
		return spec, nil
	}
	return "", &MissingImageError{Release: p.Image, Version: p.Version, Tag: tag}
}

// Agent returns the image that runs on discovered hosts.
func (p *Payload) Agent() (string, error) { return p.Component(TagAgent) }

// HostInstaller returns the image that installs a host. The agent starts it.
func (p *Payload) HostInstaller() (string, error) { return p.Component(TagHostInstaller) }

// Controller returns the image of the controller that runs in the new cluster and approves its
// hosts' certificate requests.
func (p *Payload) Controller() (string, error) { return p.Component(TagController) }

// MissingImageError reports that a release has no image with a tag.
type MissingImageError struct{ Release, Version, Tag string }

func (e *MissingImageError) Error() string {
	return fmt.Sprintf("release %s (%s) has no image %q; use a newer release or configure that image by digest",
		e.Version, e.Release, e.Tag)
}

// NotReleaseError reports that an image is not a release payload.
type NotReleaseError struct{ Image, Reason string }

func (e *NotReleaseError) Error() string {
	return fmt.Sprintf("%s is not a release: %s; give the pull spec of a release image, such as "+
		"quay.io/openshift-release-dev/ocp-release@sha256:…", e.Image, e.Reason)
}

// ArchitectureError reports that a release does not support an architecture.
type ArchitectureError struct {
	Image string
	Want  string
	Have  []string
}

func (e *ArchitectureError) Error() string {
	return fmt.Sprintf("%s is for %s, not for %s; choose a release image for this architecture or a "+
		"multi-architecture image", e.Image, strings.Join(e.Have, ", "), e.Want)
}

type payloadKey struct{ digest, arch string }

// Payload reads the release at pullSpec for an architecture (x86_64 or amd64). With "" or multi it
// returns an architecture of the release, preferably x86_64. Releases that were read before come
// from memory; if pullSpec has a digest, the registry is not contacted. Errors: *NotReleaseError,
// *ArchitectureError, and those of the registry.
func (l *Library) Payload(ctx context.Context, pullSpec, arch string, secret authn.Keychain) (*Payload, error) {
	ref, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil, fmt.Errorf("release image %q is not a pull spec: %w", pullSpec, err)
	}
	if arch = architecture.Of(arch).RPM(); arch == "multi" {
		arch = ""
	}
	if digest, ok := ref.(name.Digest); ok {
		if p := l.knownPayload(payloadKey{digest.DigestStr(), arch}, pullSpec); p != nil {
			return p, nil
		}
	}
	desc, served, err := l.mirror.Get(ctx, pullSpec, secret)
	if err != nil {
		return nil, err // the error names the image
	}
	key := payloadKey{desc.Digest.String(), arch}
	if p := l.knownPayload(key, pullSpec); p != nil {
		return p, nil
	}
	p := &Payload{
		PullSpec: pullSpec,
		Image:    ref.Context().Name() + "@" + desc.Digest.String(),
		Digest:   desc.Digest.String(),
		Multi:    desc.MediaType.IsIndex(),
		ServedBy: served.Ref.Name(),
	}
	if err := p.read(desc, arch); err != nil {
		return nil, fmt.Errorf("read release %s (from %s): %w", pullSpec, p.ServedBy, err)
	}
	l.log.Info("Release read.", "release", p.Image, "version", p.Version, "architecture", p.Architecture,
		"images",
		len(p.Images), "from", p.ServedBy)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payloads[key] = p
	return p, nil
}

func (l *Library) knownPayload(key payloadKey, pullSpec string) *Payload {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.payloads[key]
	if p == nil || p.PullSpec == pullSpec {
		return p
	}
	ref, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil
	}
	other := *p
	other.PullSpec, other.Image = pullSpec, ref.Context().Name()+"@"+p.Digest
	return &other
}

func (p *Payload) read(desc *remote.Descriptor, arch string) error {
	img, err := imageFor(p.Image, desc, arch)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("read the image's config: %w", err)
	}
	p.Architecture = architecture.Of(config.Architecture).RPM()
	if arch != "" && p.Architecture != arch {
		return &ArchitectureError{Image: p.Image, Want: arch, Have: []string{p.Architecture}}
	}
	files, err := readFiles(img, imageReferencesFile, releaseMetadataFile, coreOSBootImagesFile)
	if err != nil {
		return err
	}
	if err := p.readReferences(files[imageReferencesFile]); err != nil {
		return err
	}
	if err := p.readMetadata(files[releaseMetadataFile]); err != nil {
		return err
	}
	return p.readBootImages(files[coreOSBootImagesFile])
}

// readReferences reads an ImageStream of image.openshift.io/v1.
func (p *Payload) readReferences(data []byte) error {
	if data == nil {
		return &NotReleaseError{Image: p.Image, Reason: "it has no file " + imageReferencesFile}
	}
	var stream struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Tags []struct {
				Name string
				From *struct{ Kind, Name string }
			}
		}
	}
	if err := json.Unmarshal(data, &stream); err != nil {
		return &NotReleaseError{Image: p.Image, Reason: "its " + imageReferencesFile + " cannot be read: " +
			err.Error()}
	}
	if stream.Kind != "ImageStream" {
		return &NotReleaseError{Image: p.Image, Reason: fmt.Sprintf("its %s is of kind %q, not ImageStream",
			imageReferencesFile, stream.Kind)}
	}
	p.Images = make(map[string]string, len(stream.Spec.Tags))
	for _, tag := range stream.Spec.Tags {
		if tag.From == nil || tag.From.Kind != "DockerImage" {
			continue
		}
		if _, err := name.ParseReference(tag.From.Name); err != nil {
			return &NotReleaseError{Image: p.Image, Reason: fmt.Sprintf("its image %q is not a pull spec: %v",
				tag.Name, err)}
		}
		p.Images[tag.Name] = tag.From.Name
	}
	if len(p.Images) == 0 {
		return &NotReleaseError{Image: p.Image, Reason: "its " + imageReferencesFile + " names no image"}
	}
	p.Version = stream.Metadata.Name
	return nil
}

// readMetadata reads release-metadata (cincinnati-metadata-v0). Its version takes precedence over
// the ImageStream's name.
func (p *Payload) readMetadata(data []byte) error {
	if data != nil {
		var metadata struct{ Version string }
		if err := json.Unmarshal(data, &metadata); err != nil {
			return &NotReleaseError{Image: p.Image, Reason: "its " + releaseMetadataFile + " cannot be read: " +
				err.Error()}
		}
		if metadata.Version != "" {
			p.Version = metadata.Version
		}
	}
	if _, _, err := majorMinor(p.Version); err != nil {
		return &NotReleaseError{Image: p.Image, Reason: fmt.Sprintf("its version %q is not of the form 4.20.8",
			p.Version)}
	}
	return nil
}

// readBootImages reads the OS versions from the ConfigMap coreos-bootimages. Its data.stream is the
// CoreOS stream metadata of the default stream as a JSON string. Since 4.22, data.streams has the
// metadata of each stream by name. Payloads before 4.8 do not contain the ConfigMap.
func (p *Payload) readBootImages(data []byte) error {
	if data == nil {
		return nil
	}
	var config struct {
		Data struct{ Stream, Streams string }
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return fmt.Errorf("read %s: %w", coreOSBootImagesFile, err)
	}
	var stream streamMetadata
	if err := json.Unmarshal([]byte(config.Data.Stream), &stream); err != nil {
		return fmt.Errorf("read the stream metadata in %s: %w", coreOSBootImagesFile, err)
	}
	p.OSVersion = stream.metal(p.Architecture)
	if config.Data.Streams == "" {
		return nil
	}
	var streams map[string]streamMetadata
	if err := json.Unmarshal([]byte(config.Data.Streams), &streams); err != nil {
		return fmt.Errorf("read the metadata of the streams in %s: %w", coreOSBootImagesFile, err)
	}
	p.OSStreams = make(map[string]string, len(streams))
	for name, stream := range streams {
		p.OSStreams[name] = stream.metal(p.Architecture)
	}
	return nil
}

// streamMetadata is the part of CoreOS stream metadata about versions.
type streamMetadata struct {
	Architectures map[string]struct {
		Artifacts map[string]struct{ Release string }
	}
}

// metal returns the version of the bare-metal images for an architecture.
func (s streamMetadata) metal(arch string) string {
	return s.Architectures[arch].Artifacts["metal"].Release
}

// imageFor returns the image for the architecture from an index. If desc is a plain image, imageFor
// returns that image. In an index, "" selects x86_64 or, without x86_64, the first entry.
func imageFor(image string, desc *remote.Descriptor, arch string) (v1.Image, error) {
	if !desc.MediaType.IsIndex() {
		return desc.Image()
	}
	index, err := desc.ImageIndex()
	if err != nil {
		return nil, err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var have []string
	children := map[string]v1.Hash{}
	for _, child := range list.Manifests {
		if child.Platform == nil || child.Platform.OS != "linux" || !child.MediaType.IsImage() {
			continue
		}
		childArch := architecture.Of(child.Platform.Architecture).RPM()
		if _, seen := children[childArch]; !seen {
			have = append(have, childArch)
			children[childArch] = child.Digest
		}
	}
	if arch == "" && len(have) > 0 {
		arch = have[0]
		if slices.Contains(have, "x86_64") {
			arch = "x86_64"
		}
	}
	digest, ok := children[arch]
	if !ok {
		return nil, &ArchitectureError{Image: image, Want: arch, Have: have}
	}
	return index.Image(digest)
}

// readFiles reads small files of an image, from the last layer down and no more layers than
// necessary. The result omits files that the image does not contain or that an upper layer removed.
func readFiles(img v1.Image, names ...string) (map[string][]byte, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	removed := newWhiteouts()
	for _, layer := range slices.Backward(layers) {
		missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return found[n] != nil ||
				removed.hide(n)
		})
		if len(missing) == 0 {
			break
		}
		// oc writes a payload into one layer. Layers below the one with image-references do not
		// belong to the payload.
		if found[imageReferencesFile] != nil {
			break
		}
		if err := readLayer(layer, missing, found, removed); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func readLayer(layer v1.Layer, names []string, found map[string][]byte, removed *whiteouts) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	blob, err := layer.Compressed()
	if err != nil {
		return fmt.Errorf("open layer %s: %w", digest, err)
	}
	err = scanLayer(blob, func(e entry) error {
		removed.note(e)
		if !slices.Contains(names, e.name) || !e.regular() {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(e.content, manifestLimit+1))
		if err != nil {
			return err
		}
		if len(data) > manifestLimit {
			return fmt.Errorf("%s is larger than %d MiB", e.name, manifestLimit>>20)
		}
		found[e.name] = data
		return nil
	})
	if closeErr := blob.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("read layer %s: %w", digest, err)
	}
	return nil
}

// majorMinor returns the first two numbers of a version such as 4.16.0-rc.1.
func majorMinor(version string) (major, minor int, err error) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 {
		return 0, 0, fmt.Errorf("version %q has no major.minor.patch", version)
	}
	if major, err = strconv.Atoi(parts[0]); err != nil {
		return 0, 0, fmt.Errorf("version %q: %w", version, err)
	}
	if minor, err = strconv.Atoi(parts[1]); err != nil {
		return 0, 0, fmt.Errorf("version %q: %w", version, err)
	}
	return major, minor, nil
}
