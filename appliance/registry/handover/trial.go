package handover

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"landfall/appliance/registry/medium"
)

const (
	// trialName is the last part of the repository of the trial, and its tag.
	trialName = "landfall-trial"
	// trialBytes is the size of the blob of the trial. It is sent in two parts.
	trialBytes = 6 << 20
	// typeDockerList is the type of an image list that oc-mirror keeps.
	typeDockerList = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// trial uploads a small image in the way that the copy does. It finds what the registry refuses:
// repositories, sizes, parts of blobs, image lists. repositories are those of the copy.
type trial struct {
	*target
	list  *list
	chunk *chunkSize
	notes []string
	// own reports whether the appliance's registry has a blob.
	own func(digest string) bool
}

// run returns a refusal if the copy would fail.
func (t *trial) run(ctx context.Context) error {
	repositories := t.list.repositories()
	deepest := repositories[0]
	for _, repository := range repositories {
		if strings.Count(repository, "/") > strings.Count(deepest, "/") {
			deepest = repository
		}
		if err := t.path(ctx, t.place.repository(repository)); err != nil {
			return err
		}
	}
	at := t.place.repository(path.Join(path.Dir(deepest), trialName))
	if err := t.size(ctx, at); err != nil {
		return err
	}
	layer, err := t.parts(ctx, at)
	if err != nil {
		return err
	}
	if t.own(layer.Digest) {
		return refused("%s leads to the appliance's own registry; name the site's", t.host)
	}
	return t.lists(ctx, at, layer)
}

// path begins an upload in a repository, and removes it.
func (t *trial) path(ctx context.Context, repository string) error {
	u := &upload{target: t.target, repository: repository}
	location, _, err := u.start(ctx)
	if err == nil {
		t.cancelUpload(ctx, repository, location)
		return nil
	}
	switch status := statusOf(err); status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
		return refused("%s refuses the repository %s (%s); allow nested paths there, or create the project %s, or use "+
			"--add-mirror with a path below which the registry takes them", t.host, repository, describe(err),
			firstPart(repository))
	}
	return t.explain(err, repository)
}

func firstPart(repository string) string {
	first, _, _ := strings.Cut(repository, "/")
	return first
}

// describe returns the answer of a registry in a few words.
func describe(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if status := statusOf(err); status != 0 {
		if _, reason, ok := strings.Cut(text, ": "); ok {
			text = reason
		}
		return fmt.Sprintf("%d, %s", status, strings.TrimSuffix(text, "."))
	}
	return text
}

// errGoOn ends the body of a request whose size the registry has accepted.
var errGoOn = errors.New("the registry accepts the size")

// refusingReader fails when the client begins to send: the registry has accepted the header.
type refusingReader struct{}

func (refusingReader) Read([]byte) (int, error) { return 0, errGoOn }

// size announces the largest blob of the copy in one request. A reverse proxy with a limit refuses
// it before the first byte; then blobs are sent in parts.
func (t *trial) size(ctx context.Context, repository string) error {
	for {
		u := &upload{target: t.target, repository: repository}
		location, _, err := u.start(ctx)
		if err != nil {
			return t.explain(err, repository)
		}
		size := t.chunk.of(t.list.largest)
		_, err = t.do(ctx, call{method: http.MethodPatch, repository: repository, address: location,
			header: http.Header{"Content-Type": {"application/octet-stream"}, "Expect": {"100-continue"}},
			body:   refusingReader{}, size: size, want: []int{http.StatusAccepted}})
		t.cancelUpload(ctx, repository, location)
		if statusOf(err) != http.StatusRequestEntityTooLarge {
			return nil // the parts of the trial show whether anything else is wrong
		}
		if !t.chunk.reduce() {
			return refused("%s refuses a request with %d bytes (413), and layers have up to %d; raise the limit of "+
				"its reverse proxy, such as client_max_body_size of nginx", t.host, size, t.list.largest)
		}
	}
}

// parts uploads a blob in two parts, and reads it. If the registry takes no parts, blobs must be
// sent as a whole.
func (t *trial) parts(ctx context.Context, repository string) (medium.Descriptor, error) {
	content := make([]byte, trialBytes)
	_, _ = rand.Read(content) // never fails
	layer := medium.Descriptor{MediaType: "application/vnd.docker.image.rootfs.diff.tar.gzip",
		Digest: digestOf(content), Size: trialBytes}
	half := new(chunkSize)
	half.bytes.Store(trialBytes / 2)
	err := t.put(ctx, repository, content, half)
	status := statusOf(err)
	if status != 0 && status != http.StatusRequestEntityTooLarge && t.chunk.bytes.Load() == 0 {
		parts := err
		if err = t.put(ctx, repository, content, new(chunkSize)); err == nil {
			t.notes = append(t.notes, fmt.Sprintf("%s takes blobs only as a whole (%s), so an interrupted blob starts "+
				"again.", t.host, describe(parts)))
		}
	}
	if err != nil {
		if statusOf(err) == 0 {
			return layer, t.explain(err, repository)
		}
		if explained := new(refusal); errors.As(t.explain(err, repository), &explained) {
			return layer, explained
		}
		return layer, refused("%s refuses to store a layer of %d bytes in %s (%s); see its log", t.host, trialBytes,
			repository, describe(err))
	}
	got, err := t.do(ctx, call{method: http.MethodGet, repository: repository, address: "blobs/" + layer.Digest,
		want: []int{http.StatusOK}})
	if err != nil {
		return layer, t.explain(err, repository)
	}
	if !bytes.Equal(got.body, content) {
		return layer, refused("%s answers with other bytes than it received in %s; see its log and its disk", t.host,
			repository)
	}
	return layer, nil
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// put uploads a blob.
func (t *trial) put(ctx context.Context, repository string, content []byte, chunk *chunkSize) error {
	u := &upload{target: t.target, repository: repository, digest: digestOf(content), size: int64(len(content)),
		sent: func(int64) {}, chunk: chunk,
		write: func(_ context.Context, w io.Writer, offset, size int64) error {
			_, err := w.Write(content[offset : offset+size])
			return err
		}}
	return u.run(ctx)
}

// lists stores an image, and a list that names it and an absent one. A registry that refuses such
// lists can't take the images of a mirror for one architecture.
func (t *trial) lists(ctx context.Context, repository string, layer medium.Descriptor) error {
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["` + layer.Digest +
		`"]},"config":{}}`)
	if err := t.put(ctx, repository, config, new(chunkSize)); err != nil {
		return t.explain(err, repository)
	}
	image, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": medium.TypeDockerManifest,
		"config": medium.Descriptor{MediaType: "application/vnd.docker.container.image.v1+json",
			Digest: digestOf(config), Size: int64(len(config))},
		"layers": []medium.Descriptor{layer}})
	if err != nil {
		return err
	}
	if err := t.putManifest(ctx, repository, trialName, medium.TypeDockerManifest, image); err != nil {
		return refused("%s refuses an image in %s (%s); see its log", t.host, repository, describe(err))
	}
	describeImage := func(digest, architecture string) map[string]any {
		return map[string]any{"mediaType": medium.TypeDockerManifest, "digest": digest, "size": len(image),
			"platform": map[string]string{"architecture": architecture, "os": "linux"}}
	}
	sparse, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeDockerList,
		"manifests": []any{describeImage(digestOf(image), "amd64"), describeImage(digestOf(config), "arm64")}})
	if err != nil {
		return err
	}
	err = t.putManifest(ctx, repository, trialName+"-list", typeDockerList, sparse)
	if err != nil && statusOf(err) == 0 {
		return t.explain(err, repository)
	}
	if err != nil && len(t.list.sparse) > 0 {
		return refused("%s refuses image lists whose images for other architectures are absent (%s), and %s such, "+
			"the first is %s; let it accept them (distribution 3: validation.manifests.indexes.platforms: none), or "+
			"mirror these images for all architectures", t.host, describe(err), sentenceOf(len(t.list.sparse),
			"list on the media is", "lists on the media are"), t.list.sparse[0])
	}
	for _, reference := range []string{trialName + "-list", digestOf(sparse), trialName, digestOf(image)} {
		_, _ = t.do(ctx, call{method: http.MethodDelete, repository: repository, address: "manifests/" + reference,
			want: []int{http.StatusAccepted, http.StatusOK}}) // many registries delete nothing
	}
	return nil
}
