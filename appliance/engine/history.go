package engine

import (
	"log/slog"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/view"
	"landfall/appliance/journal"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/store/fastjson"
)

// The store keeps the history of clusters, infra-envs and hosts, and package journal collects it.
// Each change writes a [journal.Note] with its time and cause.

// SecretsPurpose is the purpose of the box that seals pull secrets in the store.
const SecretsPurpose sitekey.Purpose = "landfall pull secrets"

// JournalLayout returns the buckets, indexes and files of the objects that belong to journals.
func JournalLayout() journal.Layout {
	return journal.Layout{
		Hosts: record.ClusterHosts, InfraEnvs: record.ClusterInfraEnvs, Files: record.InstallerFiles,
		LogDirectory: view.LogDirectory, PublicFiles: []string{view.LogDirectory, manifestFolder},
		PasswordFiles: []string{fileKubeadminPassword},
		Kubeconfigs:   []string{fileKubeconfig, fileKubeconfigNoIngress},
		Events: func(tx *store.Tx, visit func(subjects []string) error) error {
			return event.Rows.Keys(tx, "", func(key string) error {
				_, subjects, err := event.ParseKey(key)
				if err != nil {
					return err
				}
				return visit(subjects)
			})
		},
		SecretsPurpose: SecretsPurpose,
	}
}

// note returns the note of the change as JSON.
func (c *change) note() []byte {
	note := journal.CauseOf(c.ctx).Note(c.now)
	text, err := fastjson.Marshal(note)
	if err != nil {
		c.log(slog.LevelError, "A change could not be recorded in the history.", "error", err)
	}
	return text
}
