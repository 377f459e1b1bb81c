package etcd

import (
	"context"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/value"

	"landfall/store"
)

// Resource describes the stored resource.
type Resource struct {
	schema.GroupResource
	Prefix      string // prefix of its keys, with a leading slash
	Codec       runtime.Codec
	Transformer value.Transformer
	New         func() runtime.Object
	NewList     func() runtime.Object
	Lease       etcd3.LeaseManagerConfig
}

// Storage is Kubernetes' own etcd storage of one resource in one version. Its watchers share
// events: each change is decoded once for all of them, and encoded once in each requested form.
// Close ends the storage.
type Storage struct {
	storage.Interface
	Close  func()
	shared *sharedCodec
}

// NewStorage opens the storage of a resource through a client of a store.
func NewStorage(client *kubernetes.Client, db *store.DB, r Resource) (Storage, error) {
	versioner, shared := sharedVersioner{}, newSharedCodec(r.Codec)
	// Only watches decode with the codec. All other readers use the decoder and do not share
	// objects.
	inner, err := etcd3.New(client, Compactor{DB: db}, shared, r.New, r.NewList, "", r.Prefix, r.GroupResource,
		r.Transformer,
		r.Lease, etcd3.NewDefaultDecoder(r.Codec, versioner), versioner)
	if err != nil {
		return Storage{}, err
	}
	return Storage{inner, inner.Close, shared}, nil
}

// Watch sends shared objects, which implement runtime.CacheableObject.
func (s Storage) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	if options.Predicate.GetAttrs != nil {
		options.Predicate.GetAttrs = unshared(options.Predicate.GetAttrs)
	}
	return s.Interface.Watch(ctx, key, options)
}
