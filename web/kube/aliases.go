package kube

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// withoutLargeAliases refuses YAML whose aliases make it larger than a body may be. The decoder
// limits the number of their values, and not the bytes: 200 KiB can become many GiB.
func withoutLargeAliases(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Content-Type"), "yaml") {
			handler.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
		if err == nil && len(body) <= bodyLimit && !aliasesFit(body) {
			responsewriters.WriteRawJSON(http.StatusBadRequest, metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
				Message: "the aliases in the YAML make it too large; write the values without aliases"}, w)
			return
		}
		// The handler sees the same error and the rest of a body that is too large.
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		handler.ServeHTTP(w, r)
	})
}

// aliasesFit reports whether YAML is at most bodyLimit bytes long when each alias is replaced by
// its value.
func aliasesFit(body []byte) bool {
	if !bytes.ContainsRune(body, '*') || !bytes.ContainsRune(body, '&') || json.Valid(body) {
		return true
	}
	var document yaml.Node
	if yaml.Unmarshal(body, &document) != nil {
		return false // another decoder might read it
	}
	return aliasSizes{}.of(&document) <= bodyLimit
}

// aliasSizes holds the sizes of nodes in bytes, up to bodyLimit + 1.
type aliasSizes map[*yaml.Node]int

func (s aliasSizes) of(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if size, ok := s[node]; ok {
		return size
	}
	s[node] = bodyLimit + 1 // while it is measured: a node that contains itself has no end
	size := len(node.Value) + 1
	for _, child := range node.Content {
		size = min(size+s.of(child), bodyLimit+1)
	}
	s[node] = size
	return size
}
