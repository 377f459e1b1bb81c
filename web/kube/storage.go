package kube

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/view"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/kube/etcd"
)

// storages creates the storage of each resource: Kubernetes' own storage for etcd over the store.
// It has no cache, because the rows of the store are in memory already.
type storages struct {
	client *kubernetes.Client
	db     *store.DB
	box    *sitekey.Box
	codec  runtime.Codec
	viewOf func(schema.GroupResource) *view.Kind
}

// GetRESTOptions returns the storage options of a resource. Its prefix is "/<group>/<resource>",
// with "core" for the group without a name.
func (s storages) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:           storagebackend.NewDefaultConfig("", s.codec).ForResource(resource),
		Decorator:               s.open,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 4,
		ResourcePrefix: strings.TrimSuffix("/"+objects.Kind{Group: resource.Group,
			Resource: resource.Resource}.Key("", ""), "/"),
	}, nil
}

func (s storages) open(config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	var transformer value.Transformer = identity.NewEncryptCheckTransformer()
	if config.GroupResource.Group == objects.Secrets.Group &&
		config.GroupResource.Resource == objects.Secrets.Resource {
		transformer = sealed{s.box}
	}
	inner, err := etcd.NewStorage(s.client, s.db, etcd.Resource{
		GroupResource: config.GroupResource, Prefix: prefix, Codec: config.Codec, Transformer: transformer,
		New: newFunc, NewList: newListFunc,
		Lease: etcd3.NewDefaultLeaseManagerConfig(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open the storage of %s: %w", config.GroupResource, err)
	}
	if kind := s.viewOf(config.GroupResource); kind != nil {
		return watched{viewing{inner, s.db, *kind, prefix}}, inner.Close, nil
	}
	if fields := hiddenOf(config.GroupResource); fields != nil {
		return hiding{watched{inner}, fields}, inner.Close, nil
	}
	return watched{inner}, inner.Close, nil
}

// sealed seals Secrets with the site's key, as package objects does.
type sealed struct{ box *sitekey.Box }

func (s sealed) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	plain, err := objects.Open(s.box, data)
	return plain, false, err
}

func (s sealed) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return objects.Seal(s.box, data)
}

// watched adapts the watches of a storage, because the store has no watch cache.
type watched struct{ storage.Interface }

// Watch sends bookmarks to clients that accept them, so that an idle watch can be resumed after the
// log was compacted. A watch from a future revision is rejected immediately: its client has read
// objects that a restore removed.
func (w watched) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	if options.ResourceVersion != "" && options.ResourceVersion != "0" {
		from, err := w.Versioner().ParseResourceVersion(options.ResourceVersion)
		if err != nil {
			return nil, err
		}
		now, err := w.GetCurrentResourceVersion(ctx)
		if err != nil {
			return nil, err
		}
		if from > now {
			return nil,
				apierrors.NewResourceExpired(fmt.Sprintf("the resource version %d is in the future (the newest is "+
					"%d): "+
					"list again and watch from there", from, now))
		}
	}
	options.ProgressNotify = options.Predicate.AllowWatchBookmarks
	return w.Interface.Watch(ctx, key, options)
}
