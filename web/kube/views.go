package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/storage"

	"landfall/appliance/kube/view"
	"landfall/store"
)

// A view is a custom resource whose objects are computed from other rows. Its definition is a row
// like other definitions, so discovery, tables and selectors work in the usual way. Only its
// storage differs.

// viewsKey is the key of the names of the views' definitions that are in the store.
const viewsKey = "views"

// seedViews writes the definitions of the views, and removes those of views that are not served any
// more. A definition that a client created stays, and its kind is not a view.
func (s *Server) seedViews(ctx context.Context) error {
	var before []string
	wanted := map[string][]byte{}
	for _, kind := range s.options.Views {
		definition, err := definitionOf(kind)
		if err != nil {
			return err
		}
		wanted[kind.Name()] = definition
	}
	changes := false
	if err := s.options.DB.View(func(tx *store.Tx) error {
		names, err := seeded.Get(tx, viewsKey)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil && *names != "" {
			before = strings.Split(*names, ",")
		}
		for _, kind := range s.options.Views {
			there, err := Rows().Get(tx, definitionKind.Key("", kind.Name()))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && !slices.Contains(before, kind.Name()) {
				s.options.Logger.Warn("A client defined this kind, so hosted clusters are not shown in it. Delete the "+
					"definition and start the appliance again to see them.", "definition", kind.Name())
				delete(wanted, kind.Name())
				continue
			}
			s.views = append(s.views, kind)
			changes = changes || err != nil || string(there.Value) != string(wanted[kind.Name()])
		}
		return nil
	}); err != nil {
		return err
	}
	outdated := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return wanted[name] != nil })
	if !changes && len(outdated) == 0 {
		return nil
	}
	return s.options.DB.Update(ctx, func(tx *store.Tx) error {
		for _, name := range outdated {
			if err := Rows().Delete(tx, definitionKind.Key("", name)); err != nil {
				return err
			}
		}
		var names []string
		for _, kind := range s.views {
			if err := Rows().Put(tx, definitionKind.Key("", kind.Name()), wanted[kind.Name()]); err != nil {
				return fmt.Errorf("write the definition of %s: %w", kind.Name(), err)
			}
			names = append(names, kind.Name())
		}
		joined := strings.Join(names, ",")
		return seeded.Put(tx, viewsKey, &joined)
	})
}

// definitionOf returns the row of a view's definition, in the state established.
func definitionOf(kind view.Kind) ([]byte, error) {
	open := true
	// The server waits two seconds for newly established definitions.
	since := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	version := apiextensionsv1.CustomResourceDefinitionVersion{Name: kind.Version, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: &open,
			Description: "A view of the hosted clusters of this appliance. It can't be written."}}}
	for _, c := range kind.Columns {
		column := apiextensionsv1.CustomResourceColumnDefinition{Name: c.Name, Type: c.Type, JSONPath: c.Path}
		if c.Wide {
			column.Priority = 1
		}
		version.AdditionalPrinterColumns = append(version.AdditionalPrinterColumns, column)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(),
			Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: kind.Name(), Generation: 1, CreationTimestamp: since,
			UID:         types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(kind.Name())).String()),
			Annotations: map[string]string{"landfall.io/view": "true"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, ListKind: kind.Kind + "List",
				Plural: kind.Plural, Singular: kind.Singular, ShortNames: kind.Short},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version}},
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	definition.Status = apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: definition.Spec.Names,
		StoredVersions: []string{kind.Version},
		Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: since,
				Reason: "NoConflicts", Message: "no conflicts found"},
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: since,
				Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
		}}
	return json.Marshal(definition)
}

// viewOf returns the view with a resource, or nil.
func (s *Server) viewOf(resource schema.GroupResource) *view.Kind {
	for i, kind := range s.views {
		if kind.Group == resource.Group && kind.Plural == resource.Resource {
			return &s.views[i]
		}
	}
	return nil
}

// withoutWrites answers requests that would write the objects of views.
func (s *Server) withoutWrites(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := s.viewInPath(r.URL.Path)
		if kind == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", "GET, HEAD")
		failure := apierrors.NewMethodNotSupported(schema.GroupResource{Group: kind.Group, Resource: kind.Plural},
			strings.ToLower(r.Method))
		failure.ErrStatus.APIVersion, failure.ErrStatus.Kind = "v1", "Status"
		failure.ErrStatus.Message = "the Kubernetes API of this appliance shows " + kind.Plural +
			" and does not change them; " + kind.Instead
		responsewriters.WriteRawJSON(http.StatusMethodNotAllowed, failure.ErrStatus, w)
	})
}

// viewInPath returns the view to whose objects a path leads, or nil.
func (s *Server) viewInPath(path string) *view.Kind {
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return nil
	}
	parts := strings.Split(rest, "/") // group, version, [namespaces, namespace,] resource, ...
	if len(parts) > 4 && parts[2] == "namespaces" {
		parts = slices.Delete(parts, 2, 4)
	}
	if len(parts) < 3 {
		return nil
	}
	return s.viewOf(schema.GroupResource{Group: parts[0], Resource: parts[2]})
}

// viewing is the storage of a view.
type viewing struct {
	storage.Interface
	db     *store.DB
	kind   view.Kind
	prefix string // "/<group>/<resource>"
}

var errForgotten = errors.New("an object was deleted before the watch started")

var errNoWrites = errors.New("the objects of a view can't be written")

// read returns the object with a key, or nil.
func (v viewing) read(tx *store.Tx, key string) (*unstructured.Unstructured, error) {
	content, revision, err := v.kind.Object(tx, key)
	if err != nil || content == nil {
		return nil, err
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		return nil, err
	}
	object.SetAPIVersion(schema.GroupVersion{Group: v.kind.Group, Version: v.kind.Version}.String())
	object.SetKind(v.kind.Kind)
	object.SetResourceVersion(strconv.FormatUint(revision, 10))
	return object, nil
}

// place splits a storage key into a namespace and a name, which may be "".
func (v viewing) place(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(strings.Trim(strings.TrimPrefix(key, v.prefix), "/"), "/")
	return namespace, name
}

// find returns the object at a storage key, or nil.
func (v viewing) find(tx *store.Tx, at string) (*unstructured.Unstructured, error) {
	namespace, name := v.place(at)
	key, err := v.kind.Find(tx, namespace, name)
	if err != nil || key == "" {
		return nil, err
	}
	object, err := v.read(tx, key)
	if object != nil && (object.GetNamespace() != namespace || object.GetName() != name) {
		object = nil
	}
	return object, err
}

// each calls fn with the objects at a storage key that match a predicate.
func (v viewing) each(tx *store.Tx, at string, options storage.ListOptions,
	fn func(key string, object *unstructured.Unstructured) error) error {
	namespace, name := v.place(at)
	visit := func(key string) error {
		object, err := v.read(tx, key)
		if err != nil {
			return store.SkipDamaged(err)
		}
		if object == nil || !v.selects(object, namespace, name, options.Predicate) {
			return nil
		}
		return fn(key, object)
	}
	if name == "" {
		return v.kind.Keys(tx, visit)
	}
	key, err := v.kind.Find(tx, namespace, name)
	if err != nil || key == "" {
		return err
	}
	return visit(key)
}

// selects reports whether an object is at a place and matches a predicate.
func (v viewing) selects(object *unstructured.Unstructured, namespace, name string,
	predicate storage.SelectionPredicate) bool {
	if namespace != "" && object.GetNamespace() != namespace || name != "" && object.GetName() != name {
		return false
	}
	matches, err := predicate.Matches(object)
	return err == nil && matches
}

// Get implements storage.Interface.
func (v viewing) Get(_ context.Context, key string, options storage.GetOptions, into runtime.Object) error {
	return v.db.View(func(tx *store.Tx) error {
		object, err := v.find(tx, key)
		switch {
		case err != nil:
			return err
		case object != nil:
			return setObject(into, object)
		case options.IgnoreNotFound:
			return runtime.SetZeroValue(into)
		}
		return storage.NewKeyNotFoundError(key, int64(tx.Revision()))
	})
}

func setObject(into runtime.Object, object *unstructured.Unstructured) error {
	target, ok := into.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("the object of a view can't be written to a %T", into)
	}
	target.Object = object.Object
	return nil
}

// GetList implements storage.Interface. It returns all objects at once.
func (v viewing) GetList(_ context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	target, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("the objects of a view can't be written to a %T", list)
	}
	return v.db.View(func(tx *store.Tx) error {
		target.Items = []unstructured.Unstructured{}
		target.SetResourceVersion(strconv.FormatUint(tx.Revision(), 10))
		return v.each(tx, key, options, func(_ string, object *unstructured.Unstructured) error {
			target.Items = append(target.Items, *object)
			return nil
		})
	})
}

// Create implements storage.Interface.
func (viewing) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errNoWrites
}

// Delete implements storage.Interface.
func (viewing) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc,
	runtime.Object, storage.DeleteOptions) error {
	return errNoWrites
}

// GuaranteedUpdate implements storage.Interface.
func (viewing) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions,
	storage.UpdateFunc, runtime.Object) error {
	return errNoWrites
}

// Watch implements storage.Interface. It follows the change log of the rows.
func (v viewing) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &viewWatch{viewing: v, at: key, options: options, known: map[string]*unstructured.Unstructured{},
		events: make(chan watch.Event), cancel: cancel}
	from, initial := uint64(0), options.SendInitialEvents != nil && *options.SendInitialEvents
	if version := options.ResourceVersion; version != "" && version != "0" {
		var err error
		if from, err = v.Versioner().ParseResourceVersion(version); err != nil {
			cancel()
			return nil, err
		}
	} else if options.SendInitialEvents == nil {
		initial = true
	}
	var first []watch.Event
	err := v.db.View(func(tx *store.Tx) error {
		revision := tx.Revision()
		w.since = revision
		if from == 0 || initial {
			from = revision
		}
		if err := v.each(tx, key, options, func(key string, object *unstructured.Unstructured) error {
			w.known[key] = outline(object)
			if initial {
				first = append(first, watch.Event{Type: watch.Added, Object: object})
			}
			return nil
		}); err != nil {
			return err
		}
		if initial && options.Predicate.AllowWatchBookmarks && options.SendInitialEvents != nil {
			first = append(first, v.bookmark(revision))
		}
		return nil
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go w.run(ctx, first, v.db.Watch(ctx, from, v.kind.Prefixes...))
	return w, nil
}

// bookmark returns the event that ends the initial events of a watch.
func (v viewing) bookmark(revision uint64) watch.Event {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(schema.GroupVersion{Group: v.kind.Group, Version: v.kind.Version}.String())
	object.SetKind(v.kind.Kind)
	object.SetResourceVersion(strconv.FormatUint(revision, 10))
	object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return watch.Event{Type: watch.Bookmark, Object: object}
}

// outline returns an object without its content, for the event of its deletion.
func outline(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": object.GetAPIVersion(),
		"kind": object.GetKind(), "metadata": object.Object["metadata"]}}
}

// viewWatch sends the changes of a view. Its goroutine ends when it is stopped, or when the store
// can't tell the changes any more; the client then lists again.
type viewWatch struct {
	viewing
	at      string
	options storage.ListOptions
	// known has outlines of the objects that existed at the revision since, and changed since then.
	known  map[string]*unstructured.Unstructured
	since  uint64
	events chan watch.Event
	cancel context.CancelFunc
}

// ResultChan implements watch.Interface.
func (w *viewWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *viewWatch) Stop() { w.cancel() }

func (w *viewWatch) run(ctx context.Context, first []watch.Event, changed *store.Watcher) {
	defer close(w.events)
	defer w.cancel()
	if !w.send(ctx, first) {
		return
	}
	for changes := range changed.C() {
		events, err := w.eventsOf(changes)
		if errors.Is(err, errForgotten) {
			w.expire(ctx)
			return
		}
		if err != nil {
			w.send(ctx, []watch.Event{{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus}})
			return
		}
		if !w.send(ctx, events) {
			return
		}
	}
	if err := changed.Err(); ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		w.expire(ctx)
	}
}

// expire tells the client to list again.
func (w *viewWatch) expire(ctx context.Context) {
	expired := apierrors.NewResourceExpired("the changes since this resource version are not known: list again")
	w.send(ctx, []watch.Event{{Type: watch.Error, Object: &expired.ErrStatus}})
}

// eventsOf returns the events of changes: one for each object.
func (w *viewWatch) eventsOf(changes []store.Change) (events []watch.Event, err error) {
	keys := map[string]uint64{}
	var order []string
	for _, change := range changes {
		for _, prefix := range w.kind.Prefixes {
			key, ok := strings.CutPrefix(change.Key, prefix)
			if !ok {
				continue
			}
			if _, known := keys[key]; !known {
				order = append(order, key)
			}
			keys[key] = max(keys[key], change.Revision)
		}
	}
	namespace, name := w.place(w.at)
	return events, w.db.View(func(tx *store.Tx) error {
		for _, key := range order {
			object, err := w.read(tx, key)
			if err != nil {
				return err
			}
			before := w.known[key]
			switch {
			case object != nil && w.selects(object, namespace, name, w.options.Predicate):
				kind := watch.Modified
				if before == nil {
					kind = watch.Added
				}
				w.known[key] = outline(object)
				events = append(events, watch.Event{Type: kind, Object: object})
			case before != nil:
				delete(w.known, key)
				before.SetResourceVersion(strconv.FormatUint(keys[key], 10))
				events = append(events, watch.Event{Type: watch.Deleted, Object: before})
			case object == nil && keys[key] <= w.since:
				// The client may have the object, whose name nobody knows any more.
				return errForgotten
			}
		}
		return nil
	})
}

// send sends events. It returns false if the watch was stopped.
func (w *viewWatch) send(ctx context.Context, events []watch.Event) bool {
	for _, event := range events {
		select {
		case w.events <- event:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
