// An HTTP server on the loopback address and those who ask it, for a number of requests or, with
// two arguments, for a number of seconds.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var handled, worked int64

//go:noinline
func work(n int) int {
	atomic.AddInt64(&worked, 1)
	if n <= 1 {
		return 1
	}
	return work(n-1) + n
}

//go:noinline
func handle(writer http.ResponseWriter, request *http.Request) {
	atomic.AddInt64(&handled, 1)
	n, _ := strconv.Atoi(request.URL.Query().Get("n"))
	fmt.Fprintf(writer, "%d", work(n))
}

func main() {
	bufio.NewReader(os.Stdin).ReadString('\n')
	most, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Hour)
	if len(os.Args) > 2 {
		end = time.Now().Add(time.Duration(most) * time.Second)
		most = 1 << 30
	}
	server := httptest.NewServer(http.HandlerFunc(handle))
	var group sync.WaitGroup
	var wrong, asked int64
	for client := 0; client < 4; client++ {
		group.Add(1)
		go func(client int) {
			defer group.Done()
			for i := 0; i < most && time.Now().Before(end); i++ {
				n := i%20 + 1
				answer, err := http.Get(fmt.Sprintf("%s/?n=%d", server.URL, n))
				if err != nil {
					atomic.AddInt64(&wrong, 1)
					continue
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				atomic.AddInt64(&asked, 1)
				if string(body) != strconv.Itoa(n*(n+1)/2) {
					atomic.AddInt64(&wrong, 1)
				}
			}
		}(client)
	}
	group.Wait()
	server.Close()
	fmt.Printf("count main.handle %d\ncount main.work %d\n", handled, worked)
	fmt.Printf("asked %d wrong %d\n", asked, wrong)
	os.Exit(int(wrong))
}
