package kube_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects"
	"landfall/store"
)

// The audit trail relies on this: what a request changes is saved only after its record.
func TestAPI_changesWaitForTheConditionOfTheRequest(t *testing.T) {
	s := newSite(t)
	s.create(t, objects.ConfigMaps, "default", "kept", `"data":{"a":"b"}`)
	s.create(t, objects.ClusterImageSets, "", "v4", `"spec":{"releaseImage":"quay.io/x@sha256:1"}`)
	s.create(t, objects.Namespaces, "", "east", "")
	const maps, sets = "/api/v1/namespaces/default/configmaps", "/apis/hive.openshift.io/v1/clusterimagesets"
	text := func(name, data string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"a":"` + data + `"}}`
	}
	for name, request := range map[string]struct{ method, path, kind, body string }{
		"create":  {http.MethodPost, maps, "application/json", text("new", "b")},
		"replace": {http.MethodPut, maps + "/kept", "application/json", text("kept", "c")},
		"merge":   {http.MethodPatch, maps + "/kept", "application/merge-patch+json", `{"data":{"a":"c"}}`},
		"apply": {http.MethodPatch, maps + "/kept?fieldManager=x&force=true", "application/apply-patch+yaml",
			text("kept", "c")},
		"delete":            {http.MethodDelete, maps + "/kept", "application/json", ""},
		"delete all":        {http.MethodDelete, maps, "application/json", ""},
		"without namespace": {http.MethodDelete, sets + "/v4", "application/json", ""},
		"namespace":         {http.MethodDelete, "/api/v1/namespaces/east", "application/json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, asked := s.db.Revision(), false
			ctx := store.After(t.Context(), func() error {
				asked = true
				return errors.New("no record is on the disk")
			})
			r := httptest.NewRequestWithContext(ctx, request.method, request.path, strings.NewReader(request.body))
			r.Header.Set("Content-Type", request.kind)
			w := httptest.NewRecorder()
			s.server.ServeHTTP(w, r)
			require.True(t, asked)
			require.Equal(t, http.StatusInternalServerError, w.Code, w.Body)
			require.Contains(t, w.Body.String(), "no record is on the disk")
			require.Equal(t, before, s.db.Revision())
		})
	}
}
