package command

import (
	"context"
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

const apiPath = remote.APIPath

func (c *client) clusters(ctx context.Context) ([]*models.Cluster, error) {
	var clusters []*models.Cluster
	return clusters, c.call(ctx, http.MethodGet, apiPath+"/clusters", nil, &clusters)
}

func (c *client) cluster(ctx context.Context, id string) (*models.Cluster, error) {
	cluster := new(models.Cluster)
	return cluster, c.call(ctx, http.MethodGet, apiPath+"/clusters/"+url.PathEscape(id), nil, cluster)
}
