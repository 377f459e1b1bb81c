package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"landfall/appliance/command/action"
	"landfall/appliance/command/remote"
	"landfall/appliance/kube/objects"
)

// retries finds out whether the Kubernetes API installs a cluster after a failed preparation.
type retries struct {
	*action.Action
	out   io.Writer
	noted string // the failure that was printed last
}

// pass returns the failure of a cluster's preparation, or another error. It prints the failure and
// returns nil if the installation starts again by itself, or if the context has ended.
func (r *retries) pass(ctx context.Context, name string, failed *preparationError) error {
	again, err := r.startsAgain(ctx, name)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case !again:
		return failed
	case failed.Error() != r.noted:
		r.noted = failed.Error()
		fmt.Fprintf(r.out, "landfall: %s; the installation starts again by itself\n", r.noted)
	}
	return nil
}

// startsAgain reports whether a cluster has an AgentClusterInstall that is not on hold.
func (r *retries) startsAgain(ctx context.Context, name string) (bool, error) {
	var deployments struct {
		Items []struct {
			Metadata struct{ Namespace string }
			Spec     struct {
				ClusterName       string
				ClusterInstallRef struct{ Name string }
			}
		}
	}
	if err := r.get(ctx, objects.ClusterDeployments, "", "", &deployments); err != nil {
		return false, err
	}
	for _, d := range deployments.Items {
		if d.Spec.ClusterName != name || d.Spec.ClusterInstallRef.Name == "" {
			continue
		}
		var install struct {
			Metadata struct{ Name string }
			Spec     struct{ HoldInstallation bool }
		}
		if err := r.get(ctx, objects.AgentClusterInstalls, d.Metadata.Namespace, d.Spec.ClusterInstallRef.Name,
			&install); err != nil {
			return false, err
		}
		if install.Metadata.Name != "" && !install.Spec.HoldInstallation {
			return true, nil
		}
	}
	return false, nil
}

// get reads an object of the Kubernetes API, or the list of a kind. It leaves into unchanged if the
// appliance does not serve that API, the caller may not read it, or the object does not exist.
func (r *retries) get(ctx context.Context, kind objects.Kind, namespace, name string, into any) error {
	path := "/apis/" + kind.APIVersion()
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	path += "/" + kind.Resource
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	err := r.Call(ctx, http.MethodGet, path, nil, into)
	if _, refused := errors.AsType[*remote.RefusedError](err); refused {
		return nil
	}
	return err
}
