package command

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"landfall/appliance/registry"
)

// leaving decides whether a signal stops the appliance while clusters pull from its registry.
type leaving struct {
	dependents func() ([]registry.Dependent, error)
	terminal   bool // a person reads out and answers at in
	in         io.Reader
	out        io.Writer
	log        *slog.Logger
}

// stops reports whether the appliance stops. Only SIGINT on a terminal is a question; a service
// manager is never kept waiting.
func (l leaving) stops(received os.Signal) bool {
	dependents, err := l.dependents()
	if err != nil {
		l.log.Error("It is not known which clusters pull from the registry.", "error", err)
		return true
	}
	if len(dependents) == 0 {
		return true
	}
	names := registry.NamesOf(dependents)
	if received != os.Interrupt || !l.terminal {
		l.log.Warn("The appliance stops, and clusters pull from its registry. Their nodes can't pull images until it "+
			"runs again.", "clusters", names)
		return true
	}
	fmt.Fprintf(l.out, "\nThese clusters pull from this appliance's registry: %s.\nWithout it, their nodes can't pull "+
		"images: pods that move, new nodes and updates fail.\nStop the appliance? [y/N] ", strings.Join(names, ", "))
	answer, _ := bufio.NewReader(l.in).ReadString('\n') // the end of the input is no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	fmt.Fprintln(l.out, "The appliance goes on.")
	return false
}
