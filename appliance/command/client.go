package command

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/openshift/assisted-service/models"
	"github.com/spf13/pflag"

	"landfall/appliance/command/remote"
)

// client calls the APIs of a running appliance.
type client struct{ *remote.Client }

// clientAt returns a client for an appliance without authentication.
func clientAt(url string) *client { return &client{remote.At(url)} }

func newClient() *client { return &client{new(remote.Client)} }

func (c *client) addFlag(flags *pflag.FlagSet) { c.AddFlags(flags) }

// call sends in as JSON to a path; see [remote.Client.Call].
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	return c.Call(ctx, method, path, in, out)
}

// send is like call, with a body of any content type.
func (c *client) send(ctx context.Context, method, path, contentType string, body io.Reader, out any) error {
	return c.Send(ctx, method, path, contentType, body, out)
}

const apiPath = remote.APIPath

func (c *client) clusters(ctx context.Context) ([]*models.Cluster, error) {
	var clusters []*models.Cluster
	return clusters, c.call(ctx, http.MethodGet, apiPath+"/clusters", nil, &clusters)
}

// resolve replaces the name of a cluster with its ID. IDs and "" remain unchanged.
func (c *client) resolve(ctx context.Context, wanted *string) error {
	if *wanted == "" {
		return nil
	}
	id, err := c.ClusterID(ctx, *wanted)
	if err == nil {
		*wanted = id
	}
	return err
}

// resolveOne is like resolve, but returns an error for "".
func (c *client) resolveOne(ctx context.Context, wanted *string) error {
	if *wanted == "" {
		return usage("--cluster is missing; landfall cluster list lists all clusters")
	}
	return c.resolve(ctx, wanted)
}

func (c *client) cluster(ctx context.Context, id string) (*models.Cluster, error) {
	cluster := new(models.Cluster)
	return cluster, c.call(ctx, http.MethodGet, apiPath+"/clusters/"+url.PathEscape(id), nil, cluster)
}
