package journal

import (
	"context"
	"fmt"
	"io"
	"strings"

	"landfall/store"
)

// SiteRedactor returns a redactor for the secrets of all clusters, infra-envs and hosts, including
// their former secrets in the history.
func (s Service) SiteRedactor(ctx context.Context) (*Redactor, error) {
	box, err := s.Key.Box(s.Layout.SecretsPurpose, nil)
	if err != nil {
		return nil, err
	}
	c := &collector{db: s.DB, layout: s.Layout, box: box, secrets: Secrets{Open: box.Open}}
	err = s.DB.View(func(tx *store.Tx) error {
		for _, prefix := range []string{clusterPrefix, infraEnvPrefix, hostPrefix} {
			if err := tx.Rows(prefix, false, func(key string, row store.Row) error {
				if prefix == clusterPrefix {
					c.cluster = strings.TrimPrefix(key, prefix)
					if err := c.fileSecrets(); err != nil {
						return err
					}
				}
				return c.secrets.AddFrom(row.JSON)
			}); err != nil {
				return err
			}
		}
		return c.pastSecrets(ctx, tx, func(string) bool { return true })
	})
	if err != nil {
		return nil, fmt.Errorf("collect the secrets of the site: %w", err)
	}
	return c.secrets.Redactor(), nil
}

// WriteAll writes all lines in memory, the oldest first. It applies redact to each line.
func (l *RecentLog) WriteAll(out io.Writer, redact func(string) string) error {
	return l.write(out, nil, redact)
}
