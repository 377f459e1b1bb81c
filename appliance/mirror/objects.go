package mirror

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Object is a Kubernetes object from the documents of the rules that a disconnected cluster needs.
type Object struct {
	Kind, APIVersion, Namespace, Name string
	// Document is the name of the document that contained the object.
	Document string
	// YAML is the object as written, without surrounding comments.
	YAML []byte
	// Created is the creation time that oc-mirror recorded; empty if there is none.
	Created string

	spec yaml.Node
	data yaml.Node // of a ConfigMap: its data or binaryData
}

// Kinds of kept objects.
const (
	KindCatalogSource  = "CatalogSource"  // operators.coreos.com/v1alpha1
	KindClusterCatalog = "ClusterCatalog" // olm.operatorframework.io/v1
	KindUpdateService  = "UpdateService"  // updateservice.operator.openshift.io/v1
	KindSignatures     = "ConfigMap"      // with the label of release signatures
)

// The cluster-version operator reads signatures from ConfigMaps with this label in this namespace
// (openshift/library-go, pkg/verify/store/configmap).
const (
	signatureLabel     = "release.openshift.io/verification-signatures"
	signatureNamespace = "openshift-config-managed"
)

// keepObject adds an object if clusters need it. It skips other kinds, which oc-mirror writes to
// the same files.
func (s *mirrorSets) keepObject(document string, node *yaml.Node, o setObject) error {
	switch o.Kind {
	case KindCatalogSource, KindClusterCatalog, KindUpdateService:
	case KindSignatures:
		if _, ok := o.Metadata.Labels[signatureLabel]; !ok {
			return nil
		}
	default:
		return nil
	}
	if o.Metadata.Name == "" {
		return &InputError{document, line(node), fmt.Sprintf("the %s has no metadata.name", o.Kind)}
	}
	text, err := yaml.Marshal(node)
	if err != nil {
		return &InputError{document, line(node), fmt.Sprintf("the %s %s can't be encoded: %v",
			o.Kind, o.Metadata.Name, err)}
	}
	kept := Object{Kind: o.Kind, APIVersion: o.APIVersion, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name,
		Document: document,
		YAML:     text, Created: o.Metadata.Annotations["createdAt"], spec: o.Spec}
	for _, key := range []string{"binaryData", "data"} {
		if data := mapValue(node, key); data != nil && len(kept.data.Content) == 0 {
			kept.data = *data
		}
	}
	s.objects = putObject(s.objects, kept)
	return nil
}

// putObject adds an object. It replaces an object of the same kind and name, which an earlier run
// of oc-mirror wrote.
func putObject(objects []Object, added Object) []Object {
	i := slices.IndexFunc(objects, func(old Object) bool {
		return old.Kind == added.Kind && old.Namespace == added.Namespace && old.Name == added.Name
	})
	if i < 0 {
		return append(objects, added)
	}
	objects[i] = added
	return objects
}

// Objects returns the objects from the documents of the rules. The caller must not change the
// result.
func (r *Rules) Objects() []Object {
	if r == nil {
		return nil
	}
	return r.objects
}

// CatalogSource is a catalog of operators in the mirror.
type CatalogSource struct {
	// Name is the name of the object, such as cs-redhat-operator-index-v4-19.
	Name string `json:"name"`
	// Image is the pull spec of the index in the mirror.
	Image string `json:"image"`
	// DefaultName is the name of OpenShift's own catalog with this index, such as redhat-operators,
	// which subscriptions use. It is empty for other indexes.
	DefaultName string `json:"default_name,omitempty"`
	// Version is the minor version of the index in its tag, such as 4.19, or "".
	Version string `json:"version,omitempty"`
	// Document is the name of the document that contained the catalog.
	Document string `json:"document"`
}

// defaultCatalogs maps the indexes of OpenShift's own catalogs to their names.
func defaultCatalogs() map[string]string {
	return map[string]string{
		"redhat-operator-index": "redhat-operators", "certified-operator-index": "certified-operators",
		"community-operator-index": "community-operators", "redhat-marketplace-index": "redhat-marketplace",
	}
}

// CatalogSources returns the operator catalogs from the documents of the rules.
func (r *Rules) CatalogSources() []CatalogSource {
	var catalogs []CatalogSource
	for _, o := range r.Objects() {
		if o.Kind != KindCatalogSource {
			continue
		}
		c := CatalogSource{Name: o.Name, Document: o.Document}
		if image := mapValue(&o.spec, "image"); image != nil {
			c.Image = image.Value
		}
		repository, tag := c.Image, ""
		if i := strings.LastIndexByte(repository, '@'); i >= 0 {
			repository = repository[:i]
		} else if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
			repository, tag = repository[:i], repository[i+1:]
		}
		c.DefaultName = defaultCatalogs()[repository[strings.LastIndexByte(repository, '/')+1:]]
		if version, ok := strings.CutPrefix(tag, "v"); ok && strings.Count(version, ".") == 1 {
			c.Version = version
		}
		catalogs = append(catalogs, c)
	}
	return catalogs
}

// Signatures returns the digests of releases ("sha256:…") whose signatures are in the documents of
// the rules.
func (r *Rules) Signatures() []string {
	var digests []string
	for digest := range r.signatures {
		if !slices.Contains(digests, digest) {
			digests = append(digests, digest)
		}
	}
	slices.Sort(digests)
	return digests
}

// SignaturesOf returns the OpenPGP signatures of a release in the documents of the rules. They are
// not verified.
func (r *Rules) SignaturesOf(digest string) [][]byte {
	var signatures [][]byte
	for of, signature := range r.signatures {
		if of == digest {
			signatures = append(signatures, signature)
		}
	}
	return signatures
}

// signatures yields the digest of a release and a signature, for each signature in the documents.
func (r *Rules) signatures(yield func(digest string, signature []byte) bool) {
	for _, o := range r.Objects() {
		if o.Kind != KindSignatures {
			continue
		}
		for i := 0; i+1 < len(o.data.Content); i += 2 {
			// The keys are sha256-<hex>-<number>.
			algorithm, rest, _ := strings.Cut(o.data.Content[i].Value, "-")
			sum, _, _ := strings.Cut(rest, "-")
			signature, err := base64.StdEncoding.DecodeString(o.data.Content[i+1].Value)
			if err != nil || sum == "" {
				continue
			}
			if !yield(algorithm+":"+sum, signature) {
				return
			}
		}
	}
}
