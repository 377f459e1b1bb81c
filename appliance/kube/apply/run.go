package apply

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/kube/objects"
)

// Actions in results, named as kubectl names them.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
	Deleted    = "deleted"
	NotThere   = "not found"
	Refused    = "refused"
)

// Result is the result of applying or deleting an object, or of a dry run.
type Result struct {
	Object   *Object
	Text     string
	Warnings []Warning
	Err      error // reason of a rejection, without the object's source
}

// Warning is a sentence of the API about a value that it accepts.
type Warning struct {
	Text string
	// Own reports whether Landfall gives the warning, because a cluster can't be installed with the
	// value. The libraries of Kubernetes also warn of harmless values.
	Own bool
}

// Options configures how objects are applied.
type Options struct {
	Namespace string // namespace of objects that do not name one; "" is default
	DryRun    bool   // the API validates the objects but stores nothing
	Force     bool   // overwrite fields of other field managers
}

// Apply applies objects with server-side apply, one after the other, and calls report with each
// result. It continues after a rejected object: the conditions of the objects that refer to it show
// that it is missing. The error is an error of the connection.
func Apply(ctx context.Context, server *Server, list []*Object, options Options, report func(Result)) error {
	made := map[string]bool{} // namespaces that exist only in this dry run
	for _, o := range list {
		text, warnings, err := server.apply(ctx, o, options, made)
		if err := fatal(err); err != nil {
			return err
		}
		report(Result{o, text, warnings, err})
	}
	return nil
}

// fatal returns the error unless it is about a single object.
func fatal(err error) error {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil
	}
	return err
}

func (s *Server) apply(ctx context.Context, o *Object, options Options, made map[string]bool) (text string,
	warnings []Warning, err error) {
	kind, err := s.resource(ctx, o.APIVersion, o.Kind)
	if err != nil {
		return Refused, nil, err
	}
	namespace := o.namespaceFor(kind, options)
	before, err := s.get(ctx, o.APIVersion, o.Kind, namespace, o.Name)
	if err != nil {
		return Refused, nil, err
	}
	// In a dry run, objects of a namespace that does not exist yet are validated in the namespace
	// default.
	tried := namespace
	if made[namespace] {
		tried = metav1Default
	}
	query := url.Values{"fieldManager": {manager}, "fieldValidation": {"Strict"}, "force": {fmt.Sprint(options.Force)}}
	if options.DryRun {
		query.Set("dryRun", "All")
	}
	path, err := s.path(ctx, o.APIVersion, o.Kind, tried, o.Name)
	if err != nil {
		return Refused, nil, err
	}
	body, err := encode(o.forServer(kind, tried))
	if err != nil {
		return Refused, nil, err
	}
	var after map[string]any
	answer, err := s.request(ctx, http.MethodPatch, path+"?"+query.Encode(), "application/apply-patch+yaml", body,
		&after)
	switch {
	case err != nil:
		return Refused, nil, explained(err)
	case answer.code == http.StatusCreated || before == nil:
		if options.DryRun && o.Is(objects.Namespaces) {
			made[o.Name] = true
		}
		return Created, answer.warnings, nil
	case unchanged(before, after):
		return Unchanged, answer.warnings, nil
	}
	return Configured, answer.warnings, nil
}

// metav1Default is the namespace of objects that do not specify one.
const metav1Default = "default"

// namespaceFor returns the namespace of an object; "" for cluster-scoped kinds.
func (o *Object) namespaceFor(kind resource, options Options) string {
	switch {
	case !kind.Namespaced:
		return ""
	case o.Namespace != "":
		return o.Namespace
	case options.Namespace != "":
		return options.Namespace
	}
	return metav1Default
}

// forServer returns the object as it is sent in the request: in its namespace, without fields that
// only a server writes, and with a Secret's stringData as data.
func (o *Object) forServer(kind resource, namespace string) map[string]any {
	content := maps.Clone(o.Content)
	delete(content, "status")
	metadata, _ := content["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields",
		"selfLink", "namespace"} {
		delete(metadata, field)
	}
	if kind.Namespaced {
		metadata["namespace"] = namespace
	}
	content["metadata"] = metadata
	texts, ok := content["stringData"].(map[string]any)
	if !ok || !o.Is(objects.Secrets) {
		return content
	}
	data, _ := content["data"].(map[string]any)
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range texts {
		if text, ok := value.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		} else {
			return content // the API reports the error
		}
	}
	delete(content, "stringData")
	content["data"] = data
	return content
}

// unchanged reports whether applying changed only metadata that the API writes.
func unchanged(before, after map[string]any) bool {
	return reflect.DeepEqual(plain(before), plain(after))
}

func plain(content map[string]any) map[string]any {
	content = maps.Clone(content)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
			delete(metadata, field)
		}
		content["metadata"] = metadata
	}
	return content
}

// explained adds advice for users to a conflict.
func explained(err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if ok && refused.Code == http.StatusConflict && strings.Contains(refused.Message, "conflict") {
		return &RefusedError{refused.Code, refused.Reason, refused.Message +
			"; --force-conflicts overwrites these fields"}
	}
	return err
}

// Delete deletes objects in reverse order of applying, and calls report with each result.
func Delete(ctx context.Context, server *Server, list []*Object, options Options, report func(Result)) error {
	for _, o := range slices.Backward(list) {
		result, err := server.delete(ctx, o, options)
		if err := fatal(err); err != nil {
			return err
		}
		report(Result{Object: o, Text: result, Err: err})
	}
	return nil
}

func (s *Server) delete(ctx context.Context, o *Object, options Options) (string, error) {
	kind, err := s.resource(ctx, o.APIVersion, o.Kind)
	if err != nil {
		return Refused, err
	}
	path, err := s.path(ctx, o.APIVersion, o.Kind, o.namespaceFor(kind, options), o.Name)
	if err != nil {
		return Refused, err
	}
	if options.DryRun {
		path += "?dryRun=All"
	}
	_, err = s.request(ctx, http.MethodDelete, path, "", nil, nil)
	switch {
	case isNotFound(err):
		return NotThere, nil
	case err != nil:
		return Refused, err
	}
	return Deleted, nil
}

// AwaitGone waits until none of the objects exists. If ctx ends first, the error names a remaining
// object and its finalizers.
func AwaitGone(ctx context.Context, server *Server, clock clockwork.Clock, list []*Object, options Options) error {
	for {
		held, err := server.blocking(context.WithoutCancel(ctx), list, options)
		if err != nil || held == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("some objects are not deleted yet: %s", held)
		case <-clock.After(pollInterval):
		}
	}
}

// pollInterval is the interval of polls of the API.
const pollInterval = time.Second

// blocking returns a text about a remaining object and its finalizers; "" if all objects are
// deleted.
func (s *Server) blocking(ctx context.Context, list []*Object, options Options) (string, error) {
	for _, o := range list {
		kind, err := s.resource(ctx, o.APIVersion, o.Kind)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		namespace := o.namespaceFor(kind, options)
		content, err := s.get(ctx, o.APIVersion, o.Kind, namespace, o.Name)
		if err != nil {
			return "", err
		}
		if content == nil {
			continue
		}
		finalizers, _ := valueAt(content, "metadata", "finalizers").([]any)
		if len(finalizers) == 0 {
			return o.String() + " still exists", nil
		}
		where := ""
		if namespace != "" {
			where = " -n " + namespace
		}
		return fmt.Sprintf("%s waits for its finalizers %v; to remove them manually: kubectl patch %s%s --type merge "+
			"-p '{\"metadata\":{\"finalizers\":null}}'", o, finalizers, o, where), nil
	}
	return "", nil
}
