package record

import (
	"github.com/go-openapi/strfmt"

	"landfall/store"
)

// These buckets read a few fields from the rows of clusters and hosts. They are for code that reads
// all rows, at a start or again and again: a summary is decoded in a fifth of the time of its row.
// They are never written.
var (
	ClusterSummaries = store.NewBucket[ClusterSummary]("clusters", 1)
	HostSummaries    = store.NewBucket[HostSummary]("hosts", 1)
)

// ClusterSummary is a part of [Cluster].
type ClusterSummary struct {
	API struct {
		ID            strfmt.UUID `json:"id"`
		Name          string      `json:"name"`
		BaseDNSDomain string      `json:"base_dns_domain"`
		Kind          string      `json:"kind"`
		Status        string      `json:"status"`
		// in the format of strfmt.DateTime, of which a parsed one takes most of the time
		InstallStartedAt   string `json:"install_started_at"`
		InstallCompletedAt string `json:"install_completed_at"`
	} `json:"api"`
	Object Object `json:"object"`
}

// HostSummary is a part of [Host].
type HostSummary struct {
	API struct {
		ClusterID  *strfmt.UUID `json:"cluster_id"`
		InfraEnvID strfmt.UUID  `json:"infra_env_id"`
		Status     string       `json:"status"`
	} `json:"api"`
	Object Object `json:"object"`
}
