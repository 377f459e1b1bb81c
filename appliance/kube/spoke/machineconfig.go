package spoke

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	poolKind      = resource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigpools"}
	configMapKind = resource{Version: "v1", Resource: "configmaps"}
)

// PausePool sets whether a MachineConfigPool is paused. While a pool is paused, its nodes do not
// get a new configuration, which would restart them.
func (c *Client) PausePool(ctx context.Context, name string, paused bool) error {
	at := place{kind: poolKind, name: name}
	pool := struct {
		Spec struct {
			Paused bool `json:"paused"`
		} `json:"spec"`
	}{}
	err := c.objects.get(ctx, at, &pool)
	if err == nil && pool.Spec.Paused != paused {
		err = c.objects.merge(ctx, at, map[string]any{"spec": map[string]any{"paused": paused}})
	}
	if err != nil {
		return fmt.Errorf("set paused to %t in the MachineConfigPool %s: %w", paused, name, err)
	}
	return nil
}

// ServerCA returns the certificate authority of a cluster's machine config server in PEM. OpenShift
// 4.19 and newer store it in a separate ConfigMap. Hosted clusters use another ConfigMap.
func (c *Client) ServerCA(ctx context.Context) (string, error) {
	for _, source := range []struct{ namespace, name, key string }{
		{"openshift-machine-config-operator", "machine-config-server-ca", "ca-bundle.crt"},
		{"kube-system", "root-ca", "ca.crt"},
		{"openshift-config", "kube-root-ca", "ca.crt"},
		{"openshift-config", "kube-root-ca.crt", "ca.crt"},
	} {
		held := core.ConfigMap{}
		err := c.objects.get(ctx, place{kind: configMapKind, namespace: source.namespace, name: source.name}, &held)
		if apierrors.IsNotFound(err) {
			continue
		}
		where := fmt.Sprintf("the ConfigMap %s/%s", source.namespace, source.name)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", where, err)
		}
		bundle := strings.TrimSpace(held.Data[source.key])
		if err := checkCertificates(bundle); err != nil {
			return "", fmt.Errorf("use %s of %s as the certificate authority of the machine config server: %w",
				source.key,
				where, err)
		}
		return bundle, nil
	}
	return "",
		fmt.Errorf("the cluster has no ConfigMap with the certificate authority of its machine config server " +
			"(openshift-machine-config-operator/machine-config-server-ca or kube-system/root-ca)")
}

func checkCertificates(bundle string) error {
	rest, count := []byte(bundle), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		count++
	}
	if count == 0 || strings.TrimSpace(string(rest)) != "" {
		return fmt.Errorf("the value is not a list of PEM certificates")
	}
	return nil
}
