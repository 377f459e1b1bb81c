package spoke

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

type resource = schema.GroupVersionResource

// objects reads and writes unstructured objects of a cluster. Typed and dynamic clients would add
// megabytes to the program.
type objects struct{ rest rest.Interface }

func newObjects(config *rest.Config, caller *http.Client) (objects, error) {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, caller)
	return objects{client}, err
}

// place locates an object or, if the name is empty, a collection.
type place struct {
	kind                 resource
	namespace, name, sub string
}

func (p place) path() []string {
	path := []string{"api", p.kind.Version}
	if p.kind.Group != "" {
		path = []string{"apis", p.kind.Group, p.kind.Version}
	}
	if p.namespace != "" {
		path = append(path, "namespaces", p.namespace)
	}
	path = append(path, p.kind.Resource)
	for _, part := range []string{p.name, p.sub} {
		if part != "" {
			path = append(path, part)
		}
	}
	return path
}

// get reads an object into a Go type.
func (o objects) get(ctx context.Context, at place, into any) error {
	return read(ctx, o.rest.Get().AbsPath(at.path()...), into)
}

// list reads a collection into the Go type of a list.
func (o objects) list(ctx context.Context, at place, query url.Values, into any) error {
	request := o.rest.Get().AbsPath(at.path()...)
	for name := range query {
		request = request.Param(name, query.Get(name))
	}
	return read(ctx, request, into)
}

func read(ctx context.Context, request *rest.Request, into any) error {
	content, err := request.Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

// create creates an object.
func (o objects) create(ctx context.Context, at place, object any) error {
	return write(ctx, o.rest.Post(), at, object)
}

// update replaces an object or its subresource.
func (o objects) update(ctx context.Context, at place, object any) error {
	return write(ctx, o.rest.Put(), at, object)
}

// merge applies a JSON merge patch to an object.
func (o objects) merge(ctx context.Context, at place, patch any) error {
	return write(ctx, o.rest.Patch(types.MergePatchType), at, patch)
}

func write(ctx context.Context, request *rest.Request, at place, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return request.AbsPath(at.path()...).Body(body).Do(ctx).Error()
}

func (o objects) delete(ctx context.Context, at place) error {
	return o.rest.Delete().AbsPath(at.path()...).Do(ctx).Error()
}

// List reads the objects of a collection into the Go type of a list. An empty namespace means all;
// an empty selector selects all. The error is apierrors.IsNotFound if the cluster has no such kind.
func (c *Client) List(ctx context.Context, kind schema.GroupVersionResource, namespace, selector string,
	into any) error {
	query := url.Values{}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	return c.objects.list(ctx, place{kind: kind, namespace: namespace}, query, into)
}

// Get reads an object into a Go type. The error is apierrors.IsNotFound if it does not exist.
func (c *Client) Get(ctx context.Context, kind schema.GroupVersionResource, namespace, name string,
	into any) error {
	return c.objects.get(ctx, place{kind: kind, namespace: namespace, name: name}, into)
}

// Merge applies a JSON merge patch to an object. A patch with a resourceVersion fails if somebody
// changed the object in the meantime.
func (c *Client) Merge(ctx context.Context, kind schema.GroupVersionResource, namespace, name string,
	patch any) error {
	return c.objects.merge(ctx, place{kind: kind, namespace: namespace, name: name}, patch)
}

// Apply creates or changes an object by a server-side apply that takes fields from other managers.
func (c *Client) Apply(ctx context.Context, kind schema.GroupVersionResource, namespace, name string,
	object any) error {
	request := c.objects.rest.Patch(types.ApplyPatchType).Param("fieldManager", "landfall").Param("force", "true")
	return write(ctx, request, place{kind: kind, namespace: namespace, name: name}, object)
}

// Create creates an object. The error is apierrors.IsAlreadyExists if it exists.
func (c *Client) Create(ctx context.Context, kind schema.GroupVersionResource, namespace string, object any) error {
	return c.objects.create(ctx, place{kind: kind, namespace: namespace}, object)
}

// UpdateStatus replaces the status of an object. It fails if somebody changed the object after the
// resourceVersion of the given one.
func (c *Client) UpdateStatus(ctx context.Context, kind schema.GroupVersionResource, namespace, name string,
	object any) error {
	return c.objects.update(ctx, place{kind: kind, namespace: namespace, name: name, sub: "status"}, object)
}

// Delete deletes an object if it has the given metadata. It fails if somebody changed or replaced
// the object in the meantime: then the error is apierrors.IsConflict.
func (c *Client) Delete(ctx context.Context, kind schema.GroupVersionResource, of meta.ObjectMeta) error {
	at := place{kind: kind, namespace: of.Namespace, name: of.Name}
	return write(ctx, c.objects.rest.Delete(), at, meta.DeleteOptions{
		TypeMeta:      meta.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &meta.Preconditions{UID: &of.UID, ResourceVersion: &of.ResourceVersion}})
}
