package metal

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	hivev1 "github.com/openshift/hive/apis/hive/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
	"landfall/ignition"
	"landfall/store"
)

// A machine that joins an installed cluster gets its configuration from that cluster's machine
// config server, and must trust the server's certificate. Therefore, the controller adds the
// server's certificate authority to the host's annotation with ignition config overrides, as the
// BareMetal Agent Controller does.

// trustServer adds the certificate authority of the machine config server to the ignition override
// of a host that joins a cluster. It reads the authority once for each Agent and content of the
// annotation.
func (c *Controllers) trustServer(ctx context.Context, s *pass) error {
	ref, id := s.agent.Spec.ClusterDeploymentName, string(s.host.UID)
	installed := false
	if err := c.DB.View(func(tx *store.Tx) error {
		cd, err := objects.Find[hivev1.ClusterDeployment](c.Objects, tx, objects.ClusterDeployments, ref.Namespace,
			ref.Name)
		installed = err == nil && cd != nil && cd.Spec.Installed
		return err
	}); err != nil || !installed {
		return err
	}
	trusted := func(annotation string) string { return string(s.agent.UID) + " " + annotation }
	c.mu.Lock()
	known := c.trusting[id] == trusted(s.host.Annotations[ignitionAnnotation])
	c.mu.Unlock()
	if known {
		return nil
	}
	bundle, done, err := c.Spokes.ServerCA(id, ref.Namespace+"/"+ref.Name, c.requeue(s.host))
	if !done {
		c.Loop.RepeatAtStart(keyOf(s.host))
		return nil
	}
	override := s.host.Annotations[ignitionAnnotation]
	if err == nil {
		override, err = withAuthority(override, bundle)
	}
	if err != nil {
		s.requeue(retrySpoke)
		return c.eventOnce(ctx, s, "MachineConfigServerNotTrusted",
			"The certificate authority of the cluster's machine config server could not be added to the host's "+
				"ignition config: "+err.Error())
	}
	if err := c.DB.Update(ctx, func(tx *store.Tx) error {
		return objects.IgnoreNotFound(c.Objects.Update(tx, objects.BareMetalHosts, s.host.Namespace, s.host.Name,
			func(u *unstructured.Unstructured) error {
				annotations := u.GetAnnotations()
				if annotations[ignitionAnnotation] != s.host.Annotations[ignitionAnnotation] {
					return nil // the change of the annotation in the meantime has queued the host
				}
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations[ignitionAnnotation] = override
				u.SetAnnotations(annotations)
				return nil
			}))
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trusting[id] = trusted(override)
	return nil
}

// withAuthority merges the certificate authority into an ignition config ("" for none). A config
// that already contains the authority is returned unchanged.
func withAuthority(override, bundle string) (string, error) {
	encoded := base64.StdEncoding.EncodeToString([]byte(bundle))
	if strings.Contains(override, encoded) {
		return override, nil
	}
	trusting, err := json.Marshal(map[string]any{"ignition": map[string]any{
		"version": "3.1.0",
		"security": map[string]any{"tls": map[string]any{"certificateAuthorities": []any{
			map[string]any{"source": "data:text/plain;charset=utf-8;base64," + encoded}}}},
	}})
	if err != nil || override == "" {
		return string(trusting), err
	}
	merged, err := ignition.Merge(trusting, []byte(override))
	if err != nil {
		return "", fmt.Errorf("merge the annotation %s with the certificate authority: %w", ignitionAnnotation, err)
	}
	return string(merged), nil
}
