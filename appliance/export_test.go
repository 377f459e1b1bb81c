package appliance

import "net/http"

// Handler returns the handler of the main listener.
func (a *Appliance) Handler() http.Handler { return a.server }
