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
func (r *retries) pass(ctx context.Context, id, name string, failed *preparationError) error {
	again, err := r.startsAgain(ctx, id, name)
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
func (r *retries) startsAgain(ctx context.Context, id, name string) (bool, error) {
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
			Status   struct{ DebugInfo struct{ EventsURL string } }
		}
		if err := r.get(ctx, objects.AgentClusterInstalls, d.Metadata.Namespace, d.Spec.ClusterInstallRef.Name,
			&install); err != nil {
			return false, err
		}
		if install.Metadata.Name != "" && !install.Spec.HoldInstallation &&
			mayDescribe(install.Status.DebugInfo.EventsURL, id) {
			return true, nil
		}
	}
	return false, nil
}

// mayDescribe reports whether the URL of the events in the status of an AgentClusterInstall may be
// that of a cluster. Clusters of other objects can have the same name. The URL is "" if the
// controller has not written it yet.
func mayDescribe(eventsURL, id string) bool {
	parsed, err := url.Parse(eventsURL)
	if err != nil {
		return false
	}
	cluster := parsed.Query().Get("cluster_id")
	return cluster == "" || cluster == id
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
