// An HTTP server whose page sorts, hashes and encodes.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sort"
)

type row struct {
	Name  string
	Value int
}

//go:noinline
func rows(count int) []row {
	made := make([]row, count)
	for number := range made {
		made[number] = row{fmt.Sprintf("row %d", number), number * number % 997}
	}
	sort.Slice(made, func(a, b int) bool { return made[a].Value < made[b].Value })
	return made
}

func page(writer http.ResponseWriter, request *http.Request) {
	text, _ := json.Marshal(rows(200))
	fmt.Fprintf(writer, "%s %x\n", text, sha256.Sum256(text))
}

func main() {
	http.HandleFunc("/", page)
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
