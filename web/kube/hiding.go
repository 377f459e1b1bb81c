package kube

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"landfall/appliance/access"
	"landfall/web/kube/etcd"
)

// hiding is a storage that hides fields from users by their role. Such users also change the object
// as they see it: a patch can neither copy nor test a hidden field. A hidden field that they send
// back keeps its stored value.
type hiding struct {
	storage.Interface
	fields hiddenFields
}

// readerOf returns the role of the user of a request. The appliance itself reads everything.
func readerOf(ctx context.Context) access.Role {
	reader, ok := request.UserFrom(ctx)
	if !ok || reader.GetName() == user.APIServerUser {
		return access.Administrator
	}
	return roleOf(reader)
}

// byAppliance reports whether the appliance itself sends a request.
func byAppliance(ctx context.Context) bool {
	reader, ok := request.UserFrom(ctx)
	return !ok || reader.GetName() == user.APIServerUser
}

func (h hiding) hide(object runtime.Object, role access.Role) (bool, error) {
	content, write := contentOf(object)
	if content == nil || !h.fields.hide(content, role) {
		return false, nil
	}
	return true, write()
}

// hideFrom hides the fields of an object in a response to a role.
func (h hiding) hideFrom(role access.Role, object runtime.Object, err error) error {
	if err != nil || object == nil || role >= access.Administrator {
		return err
	}
	_, err = h.hide(object, role)
	return err
}

// restore restores the hidden fields of an object that a role writes over a stored object; nil for
// a new object.
func (h hiding) restore(object, stored runtime.Object, role access.Role) error {
	content, write := contentOf(object)
	if content == nil {
		return nil
	}
	var before map[string]any
	if stored != nil {
		before, _ = contentOf(stored)
	}
	if err := h.fields.restore(content, before, role); err != nil {
		return err
	}
	return write()
}

// Get implements storage.Interface.
func (h hiding) Get(ctx context.Context, key string, options storage.GetOptions, into runtime.Object) error {
	return h.hideFrom(readerOf(ctx), into, h.Interface.Get(ctx, key, options, into))
}

// GetList implements storage.Interface.
func (h hiding) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	role, err := readerOf(ctx), h.Interface.GetList(ctx, key, options, list)
	if err != nil || role >= access.Administrator {
		return err
	}
	return meta.EachListItem(list, func(object runtime.Object) error { return h.hideFrom(role, object, nil) })
}

// Create implements storage.Interface.
func (h hiding) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	role := readerOf(ctx)
	if !byAppliance(ctx) {
		if err := h.restore(object, nil, role); err != nil {
			return err
		}
	}
	return h.hideFrom(role, out, h.Interface.Create(ctx, key, object, out, ttl))
}

// Delete implements storage.Interface.
func (h hiding) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions) error {
	role := readerOf(ctx)
	if role < access.Administrator {
		cached = nil // its fields are hidden
	}
	return h.hideFrom(role, out, h.Interface.Delete(ctx, key, out, preconditions, validate, cached, options))
}

// GuaranteedUpdate implements storage.Interface.
func (h hiding) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	if byAppliance(ctx) {
		return h.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached)
	}
	role := readerOf(ctx)
	if role < access.Administrator {
		cached = nil // its fields are hidden
	}
	err := h.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions,
		func(object runtime.Object, metadata storage.ResponseMeta) (runtime.Object, *uint64, error) {
			stored := object.DeepCopyObject()
			if err := h.hideFrom(role, object, nil); err != nil {
				return nil, nil, err
			}
			changed, ttl, err := update(object, metadata)
			if err != nil {
				return nil, nil, err
			}
			return changed, ttl, h.restore(changed, stored, role)
		}, cached)
	return h.hideFrom(role, out, err)
}

// Watch implements storage.Interface. Watchers of the same role share the objects with hidden
// fields and their encodings.
func (h hiding) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	role := readerOf(ctx)
	inner, err := h.Interface.Watch(ctx, key, options)
	if err != nil || role >= access.Administrator {
		return inner, err
	}
	w := &hidingWatch{Interface: inner, events: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run(func(object runtime.Object) (runtime.Object, error) {
		return etcd.Variant(object, role, func(object runtime.Object) (bool, error) { return h.hide(object, role) })
	})
	return w, nil
}

// hidingWatch changes the objects of a watch. Its goroutine ends when the watch is stopped or ends.
type hidingWatch struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func (w *hidingWatch) run(hide func(runtime.Object) (runtime.Object, error)) {
	defer close(w.events)
	for event := range w.Interface.ResultChan() {
		hidden, err := hide(event.Object)
		if err != nil {
			w.Interface.Stop()
			return // the client lists again
		}
		event.Object = hidden
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (w *hidingWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *hidingWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}
