package installconfig

import (
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestLeaseFiles(t *testing.T) {
	id := strfmt.UUID("00000000-0000-4000-8000-000000000001")
	in := &Installation{Cluster: &models.Cluster{ID: &id, VipDhcpAllocation: conv.Pointer(true)}}
	require.Empty(t, in.leaseFiles(), "the cluster has no VIPs yet")

	in.Cluster.APIVips = []*models.APIVip{{IP: "192.168.10.4"}}
	in.Cluster.IngressVips = []*models.IngressVip{{IP: "192.168.10.5"}}
	in.APILease = "lease {\n}"
	files := in.leaseFiles()
	require.Len(t, files, 2)
	require.Equal(t, "/etc/keepalived/unsupported-monitor.conf", files[0].Path)
	require.Regexp(t, `^api-vip:\n  name: api\n  mac-address: 02(:[0-9a-f]{2}){5}\n  ip-address: 192.168.10.4\n`+
		`ingress-vip:\n  name: ingress\n  mac-address: 02(:[0-9a-f]{2}){5}\n  ip-address: 192.168.10.5\n$`,
		string(files[0].Data))
	require.Equal(t, "/etc/keepalived/lease-api", files[1].Path)
}
