// Command standin serves the test server for AMS as a separate process, for tests that examine the
// product from outside. The service account "site" with the secret "secret" can log in. The
// following calls under /standin control the server:
//
//	POST /standin/break?op=create&status=400&code=8&reason=…  answers such calls with the error
//	POST /standin/heal
//	GET  /standin/rows                                        the subscriptions
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/ams/amstest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address and port")
	flag.Parse()
	ams := amstest.New(clockwork.NewRealClock())
	ams.AddAccount(amstest.Account{ID: "2GOuuT2l3odeHRdWqY57fviSE2K", Username: "site",
		Organization: "2GOuxr72XcFbrWvyA9rS9McOUjO", OrganizationName: "Example"})
	ams.AddClient("site", "site", "secret")
	server := &http.Server{Addr: *listen, Handler: routes(ams), ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}

func routes(ams *amstest.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", ams)
	mux.HandleFunc("POST /standin/break", func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.FormValue("status"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ams.Break(amstest.Fault{Op: r.FormValue("op"), Do: amstest.Status(status, code, r.FormValue("reason"))})
	})
	mux.HandleFunc("POST /standin/heal", func(http.ResponseWriter, *http.Request) { ams.Heal() })
	mux.HandleFunc("GET /standin/rows", func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(ams.Rows()); err != nil {
			log.Print(err)
		}
	})
	return mux
}
