package apply

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/objects"
)

// fakeAPI is a fake Kubernetes API for the requests of this package. Applying replaces the whole
// object.
type fakeAPI struct {
	*Server
	mu        sync.Mutex
	objects   map[string]map[string]any // objects by path
	order     []string                  // paths in the order of creation
	revision  int
	refuse    map[string]string // path -> message of a 422
	warn      map[string]string // path -> header Warning of a patch
	beforeGet func(path string) // called before a GET is answered
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{objects: map[string]map[string]any{"/api/v1/namespaces/default": {"kind": "Namespace"}},
		refuse: map[string]string{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.Server = &Server{URL: server.URL, HTTP: server.Client(), Token: "t"}
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.beforeGet != nil && r.Method == http.MethodGet {
		f.beforeGet(r.URL.Path)
	}
	dry := r.URL.Query().Get("dryRun") == "All"
	known, path := f.objects[r.URL.Path], r.URL.Path
	if kinds, ok := discovery(path); ok && r.Method == http.MethodGet {
		reply(w, http.StatusOK, map[string]any{"kind": "APIResourceList", "resources": kinds})
		return
	}
	switch r.Method {
	case http.MethodGet:
		if items := f.below(path); known == nil && (strings.HasSuffix(path, "configs") ||
			strings.HasSuffix(path, "/agents") || strings.HasSuffix(path, "/infraenvs") ||
			strings.HasSuffix(path, "/clusterdeployments")) {
			reply(w, http.StatusOK, map[string]any{"items": items})
			return
		}
	case http.MethodDelete:
		if known != nil && !dry {
			delete(f.objects, path)
		}
	case http.MethodPatch:
		f.patch(w, r, known, dry)
		return
	}
	if known == nil {
		refuse(w, http.StatusNotFound, "NotFound", path+" not found")
		return
	}
	reply(w, http.StatusOK, known)
}

func (f *fakeAPI) patch(w http.ResponseWriter, r *http.Request, known map[string]any, dry bool) {
	body, err := io.ReadAll(r.Body)
	var content map[string]any
	if err != nil || json.Unmarshal(body, &content) != nil ||
		r.Header.Get("Content-Type") != "application/apply-patch+yaml" || r.Header.Get("Authorization") != "Bearer t" ||
		r.URL.Query().Get("fieldValidation") != "Strict" {
		refuse(w, http.StatusBadRequest, "BadRequest", "not an apply patch")
		return
	}
	if _, rest, ok := strings.Cut(r.URL.Path, "/namespaces/"); ok && strings.Contains(rest, "/") {
		namespace, _, _ := strings.Cut(rest, "/")
		if f.objects["/api/v1/namespaces/"+namespace] == nil {
			refuse(w, http.StatusNotFound, "NotFound", `namespaces "`+namespace+`" not found`)
			return
		}
	}
	if message := f.refuse[r.URL.Path]; message != "" {
		refuse(w, http.StatusUnprocessableEntity, "Invalid", message)
		return
	}
	f.revision++
	metadata, _ := content["metadata"].(map[string]any)
	metadata["resourceVersion"], metadata["uid"] = fmt.Sprint(f.revision), r.URL.Path
	if status, ok := known["status"]; ok {
		content["status"] = status
	}
	code := http.StatusOK
	if known == nil {
		code = http.StatusCreated
	}
	if !dry {
		f.objects[r.URL.Path] = content
		if known == nil {
			f.order = append(f.order, r.URL.Path)
		}
	}
	if text, ok := f.warn[r.URL.Path]; ok {
		w.Header().Set("Warning", text)
	}
	reply(w, code, content)
}

func (f *fakeAPI) below(path string) []any {
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if strings.HasPrefix(key, path+"/") {
			items = append(items, f.objects[key])
		}
	}
	return items
}

func discovery(path string) ([]resource, bool) {
	var kinds []resource
	for _, k := range objects.Kinds() {
		if root(k.APIVersion()) == path {
			kinds = append(kinds, resource{k.Resource, k.Kind, k.Namespaced}, resource{k.Resource + "/status",
				k.Kind, k.Namespaced})
		}
	}
	return kinds, kinds != nil
}

func reply(w http.ResponseWriter, code int, value any) {
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message})
}

// set changes an object as another client would.
func (f *fakeAPI) set(t *testing.T, path, text string) {
	var content map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &content))
	f.objects[path] = content
}
