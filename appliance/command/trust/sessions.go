package trust

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"landfall/web/console"
)

const sessionsPath = console.BasePath + "/sessions"

// activeSession is a session in the list of sessions.
type activeSession struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	UserAgent string    `json:"user_agent,omitempty"`
	StartedAt time.Time `json:"started_at"`
	LastUse   time.Time `json:"last_use"`
	ExpiresAt time.Time `json:"expires_at"`
	Current   bool      `json:"current,omitempty"`
}

func newSessionList() *cobra.Command {
	return newList("List the sessions: administrators see all, others their own", sessionsPath,
		"ID\tUSER\tADDRESS\tSINCE\tLAST USE\tUNTIL", func(s activeSession) string {
			id := s.ID
			if s.Current {
				id += " (this one)"
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", id, s.Name, s.Address, formatTime(s.StartedAt),
				formatTime(s.LastUse), formatTime(s.ExpiresAt))
		})
}

func newSessionEnd() *cobra.Command {
	return newDelete("end ID", "End a session", sessionsPath, "The session %s has ended.\n")
}
