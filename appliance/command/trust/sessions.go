package trust

import (
	"fmt"

	"github.com/spf13/cobra"

	api "landfall/web/access"
)

const sessionsPath = api.BasePath + "/sessions"

func newSessionList() *cobra.Command {
	return newList("List the sessions: administrators see all, others their own", sessionsPath,
		"ID\tUSER\tADDRESS\tSINCE\tLAST USE\tUNTIL", func(s api.Session) string {
			id := s.ID
			if s.Current {
				id += " (this one)"
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", id, s.Name, s.Address, formatTime(s.StartedAt),
				formatTime(s.LastUse), formatTime(s.ExpiresAt))
		})
}

func newSessionEnd() *cobra.Command {
	return newDelete("end ID", "End a session", sessionsPath, "", "The session %s has ended.\n")
}
