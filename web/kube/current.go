package kube

import (
	"net/http"
	"strings"
)

// current passes requests to a handler after the objects have been brought up to date. Watches get
// later changes when they are projected.
func (s *Server) current(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !wantsObjects(r.URL.Path) {
			handler.ServeHTTP(w, r)
			return
		}
		if isWatch(r) && s.options.Watching != nil {
			defer s.options.Watching()()
		}
		if s.options.Current != nil && s.options.Current(r.Context()) != nil {
			return // the client has gone
		}
		handler.ServeHTTP(w, r)
	})
}

// wantsObjects reports whether a path leads to objects that the appliance writes. Discovery does
// not wait for them, and neither do the resource definitions, which the start of the API needs.
func wantsObjects(path string) bool {
	if rest, ok := strings.CutPrefix(path, "/api/v1/"); ok {
		return rest != ""
	}
	rest, ok := strings.CutPrefix(path, "/apis/")
	group, rest, _ := strings.Cut(rest, "/")
	_, resource, _ := strings.Cut(rest, "/")
	return ok && resource != "" && group != "apiextensions.k8s.io"
}
