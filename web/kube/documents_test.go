package kube_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
)

var definitionKind = objects.Kind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
	Resource: "customresourcedefinitions"}

// The first request after a start builds a document. It must not lack a kind.
func TestDocuments_firstRequestHasAllKinds(t *testing.T) {
	url := overHTTP(t, newSite(t))
	var requests sync.WaitGroup
	var v2, v3 string
	requests.Go(func() { v2 = getText(t, url+"/openapi/v2", "application/json") })
	requests.Go(func() { v3 = getText(t, url+"/openapi/v3", "application/json") })
	requests.Wait()
	var groups struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	require.NoError(t, json.Unmarshal([]byte(v3), &groups))
	for _, kind := range objects.Kinds() {
		path := "apis/" + kind.APIVersion()
		if kind.Group == "" {
			path = "api/" + kind.Version
		}
		require.Contains(t, groups.Paths, path)
		of := getText(t, url+groups.Paths[path].ServerRelativeURL, "application/json")
		for _, document := range []string{v2, of} {
			require.Contains(t, document, `"/`+path+"/"+strings.Repeat("namespaces/{namespace}/",
				map[bool]int{true: 1}[kind.Namespaced])+kind.Resource+`"`)
			require.Contains(t, document, `"kind":"`+kind.Kind+`"`)
		}
	}
	require.Equal(t, http.StatusNotFound, statusOf(t, http.MethodGet, url+"/openapi/v4", "", nil))
	require.NotEmpty(t, getText(t, url+"/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"))
}

func TestDocuments_followTheDefinitions(t *testing.T) {
	s := newSite(t)
	url := overHTTP(t, s)
	both := func(wanted bool, text string) {
		t.Helper()
		require.Eventually(t, func() bool {
			v2 := getText(t, url+"/openapi/v2", "application/json")
			v3 := ""
			if strings.Contains(getText(t, url+"/openapi/v3", "application/json"), "apis/example.com/v1") {
				v3 = getText(t, url+"/openapi/v3/apis/example.com/v1", "application/json")
			}
			return strings.Contains(v2, text) == wanted && strings.Contains(v3, text) == wanted
		}, time.Minute, 50*time.Millisecond, "%s: %v", text, wanted)
	}
	both(false, "com.example.v1.Rack")
	s.create(t, definitionKind, "", "racks.example.com", `"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"kind":"Rack","plural":"racks"},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
		"description":"The first description."}}}}}]}`)
	both(true, "The first description.")
	both(true, "com.example.v1.Rack")

	changed := s.get(t, definitionKind, "", "racks.example.com")
	versions, _, err := unstructured.NestedSlice(changed.Object, "spec", "versions")
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(versions[0].(map[string]any), "The second description.", "schema",
		"openAPIV3Schema", "properties", "spec", "description"))
	require.NoError(t, unstructured.SetNestedSlice(changed.Object, versions, "spec", "versions"))
	_, err = s.of(definitionKind, "").Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	both(true, "The second description.")
	both(false, "The first description.")

	require.NoError(t, s.of(definitionKind, "").Delete(t.Context(), "racks.example.com", metav1.DeleteOptions{}))
	both(false, "com.example.v1.Rack")
}
