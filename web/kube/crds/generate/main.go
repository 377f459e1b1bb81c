// Command generate creates the CRDs that the API server embeds. It converts the YAML files that
// controller-gen wrote to rows of the store, so that the program does not parse them when it
// starts; see package crds.
//
//	go tool controller-gen crd:crdVersions=v1,allowDangerousTypes=true paths=... output:crd:dir=DIR
//	go run . DIR ../crds.json.gz
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"landfall/appliance/kube/objects"
	"landfall/web/kube/crds"

	// The modules that the CRDs are generated from.
	_ "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	_ "github.com/openshift/assisted-service/api/hiveextension/v1beta1"
	_ "github.com/openshift/hive/apis/hive/v1"
	_ "landfall/appliance/kube/objects/addon"
	_ "landfall/appliance/kube/objects/agentinstall"
	_ "open-cluster-management.io/api/cluster/v1"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(dir, out string) error {
	var rows []crds.Row
	for _, kind := range objects.Kinds() {
		if kind.Group == "" {
			continue
		}
		row, err := convert(dir, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b crds.Row) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	return errors.Join(
		os.WriteFile(out, packed.Bytes(), 0o644),
		os.WriteFile(filepath.Join(filepath.Dir(out), "digest.txt"), []byte(hex.EncodeToString(digest[:])+"\n"), 0o644))
}

// convert reads one CRD and returns its row in the state established.
func convert(dir string, kind objects.Kind) (row crds.Row, err error) {
	text, err := os.ReadFile(filepath.Join(dir, kind.Group+"_"+kind.Resource+".yaml"))
	if err != nil {
		return row, err
	}
	crd := new(v1.CustomResourceDefinition)
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return row, err
	}
	if crd.Spec.Names.Kind != kind.Kind || (crd.Spec.Scope == v1.NamespaceScoped) != kind.Namespaced {
		return row, fmt.Errorf("the CRD has the kind %s and the scope %s", crd.Spec.Names.Kind, crd.Spec.Scope)
	}
	crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions,
		func(v v1.CustomResourceDefinitionVersion) bool { return v.Name != kind.Version })
	if len(crd.Spec.Versions) != 1 || !hasSpec(crd) {
		return row, errors.New("the schema is not complete: is go.mod tidy?")
	}
	if err := addNewerSchemas(kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
		return row, err
	}
	crd.Spec.Versions[0].Storage, crd.Spec.Versions[0].Served = true, true
	v1.SetDefaults_CustomResourceDefinition(crd)
	v1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	crd.APIVersion, crd.Kind = v1.SchemeGroupVersion.String(), "CustomResourceDefinition"
	if kind == objects.AgentClusterInstalls {
		// Hive finds the kinds that install clusters by this label.
		crd.Labels = map[string]string{"contracts.hive.openshift.io/clusterinstall": "true"}
	}
	crd.UID = types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(crd.Name)).String())
	crd.Generation = 1
	crd.CreationTimestamp = metav1.NewTime(crds.Placeholder)
	crd.Status = v1.CustomResourceDefinitionStatus{
		AcceptedNames: crd.Spec.Names, StoredVersions: []string{kind.Version},
		Conditions: []v1.CustomResourceDefinitionCondition{
			{Type: v1.NamesAccepted, Status: v1.ConditionTrue, LastTransitionTime: crd.CreationTimestamp,
				Reason: "NoConflicts", Message: "no conflicts found"},
			{Type: v1.Established, Status: v1.ConditionTrue, LastTransitionTime: crd.CreationTimestamp,
				Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
		},
	}
	object, err := json.Marshal(crd)
	return crds.Row{Name: crd.Name, Object: object}, err
}

// hasSpec reports whether the schema has the fields of a spec. controller-gen omits types that it
// can't load.
func hasSpec(crd *v1.CustomResourceDefinition) bool {
	schema := crd.Spec.Versions[0].Schema
	return schema != nil && schema.OpenAPIV3Schema != nil &&
		len(schema.OpenAPIV3Schema.Properties["spec"].Properties) > 0
}
