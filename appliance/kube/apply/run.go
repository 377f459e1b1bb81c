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

// What became of an object, in kubectl's words.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
	Deleted    = "deleted"
	NotThere   = "not found"
	Refused    = "refused"
)

// Outcome is what became of an object, or in a dry run would.
type Outcome struct {
	Object *Object
	Result string
	Err    error // why it was refused; the object's place is not in it
}

// Options are how objects are applied.
type Options struct {
	Namespace string // of objects that name none; "" is default
	DryRun    bool   // the API checks everything and keeps nothing
	Force     bool   // take over fields that others have set
}

// Apply brings objects to the API by server-side apply, one after the other, and tells of each. One
// that is refused does not keep the others from being applied: what refers to it then shows that in
// its conditions. The error is that of an API that can't be asked.
func Apply(ctx context.Context, server *Server, list []*Object, options Options, tell func(Outcome)) error {
	made := map[string]bool{} // namespaces that only a dry run made
	for _, o := range list {
		result, err := server.apply(ctx, o, options, made)
		if err := fatal(err); err != nil {
			return err
		}
		tell(Outcome{o, result, err})
	}
	return nil
}

// fatal is an error that is not about one object.
func fatal(err error) error {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil
	}
	return err
}

func (s *Server) apply(ctx context.Context, o *Object, options Options, made map[string]bool) (string, error) {
	kind, err := s.resource(ctx, o.APIVersion, o.Kind)
	if err != nil {
		return Refused, err
	}
	namespace := o.home(kind, options)
	before, err := s.get(ctx, o.APIVersion, o.Kind, namespace, o.Name)
	if err != nil {
		return Refused, err
	}
	// A namespace that is yet to come can't hold the objects of a dry run: they are tried in one
	// that is there.
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
		return Refused, err
	}
	body, err := encode(o.forServer(kind, tried))
	if err != nil {
		return Refused, err
	}
	var after map[string]any
	code, err := s.ask(ctx, http.MethodPatch, path+"?"+query.Encode(), "application/apply-patch+yaml", body, &after)
	switch {
	case err != nil:
		return Refused, explained(err)
	case code == http.StatusCreated || before == nil:
		if options.DryRun && o.Is(objects.Namespaces) {
			made[o.Name] = true
		}
		return Created, nil
	case same(before, after):
		return Unchanged, nil
	}
	return Configured, nil
}

// metav1Default is the namespace of objects that name none.
const metav1Default = "default"

// home is the namespace of an object, "" for kinds that lie in none.
func (o *Object) home(kind resource, options Options) string {
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

// forServer is the object as it is sent: in its namespace, without what only a server writes, and a
// Secret's texts as data.
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
			return content // the API says what is wrong
		}
	}
	delete(content, "stringData")
	content["data"] = data
	return content
}

// same tells whether applying changed nothing but what the API keeps about who set what.
func same(before, after map[string]any) bool { return reflect.DeepEqual(plain(before), plain(after)) }

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

// explained adds to a conflict what a person does about it.
func explained(err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if ok && refused.Code == http.StatusConflict && strings.Contains(refused.Message, "conflict") {
		return &RefusedError{refused.Code, refused.Reason, refused.Message +
			"; with --force-conflicts these fields are taken over"}
	}
	return err
}

// Delete removes objects, those that were applied last first, and tells of each.
func Delete(ctx context.Context, server *Server, list []*Object, options Options, tell func(Outcome)) error {
	for _, o := range slices.Backward(list) {
		result, err := server.delete(ctx, o, options)
		if err := fatal(err); err != nil {
			return err
		}
		tell(Outcome{o, result, err})
	}
	return nil
}

func (s *Server) delete(ctx context.Context, o *Object, options Options) (string, error) {
	kind, err := s.resource(ctx, o.APIVersion, o.Kind)
	if err != nil {
		return Refused, err
	}
	path, err := s.path(ctx, o.APIVersion, o.Kind, o.home(kind, options), o.Name)
	if err != nil {
		return Refused, err
	}
	if options.DryRun {
		path += "?dryRun=All"
	}
	_, err = s.ask(ctx, http.MethodDelete, path, "", nil, nil)
	switch {
	case isNotFound(err):
		return NotThere, nil
	case err != nil:
		return Refused, err
	}
	return Deleted, nil
}

// AwaitGone returns when none of the objects is there any more. If ctx ends before, the error names
// those that stay and what holds them.
func AwaitGone(ctx context.Context, server *Server, clock clockwork.Clock, list []*Object, options Options) error {
	for {
		held, err := server.held(context.WithoutCancel(ctx), list, options)
		if err != nil || held == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not all is gone yet: %s", held)
		case <-clock.After(pause):
		}
	}
}

// pause is how long is waited between two looks at the API.
const pause = time.Second

// held names an object that is still there, and its finalizers; "" when all are gone.
func (s *Server) held(ctx context.Context, list []*Object, options Options) (string, error) {
	for _, o := range list {
		kind, err := s.resource(ctx, o.APIVersion, o.Kind)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		namespace := o.home(kind, options)
		content, err := s.get(ctx, o.APIVersion, o.Kind, namespace, o.Name)
		if err != nil {
			return "", err
		}
		if content == nil {
			continue
		}
		finalizers, _ := valueAt(content, "metadata", "finalizers").([]any)
		if len(finalizers) == 0 {
			return o.String() + " is still there", nil
		}
		where := ""
		if namespace != "" {
			where = " -n " + namespace
		}
		return fmt.Sprintf("%s waits for its finalizers %v; if nothing removes them: kubectl patch %s%s --type merge "+
			"-p '{\"metadata\":{\"finalizers\":null}}'", o, finalizers, o, where), nil
	}
	return "", nil
}
