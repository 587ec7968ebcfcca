// An HTTP server whose page sorts, encodes and matches text.
'use strict';
const http = require('http');

function rows(count) {
  const made = [];
  for (let number = 0; number < count; number++) {
    made.push({ name: `row ${number}`, value: (number * number) % 997 });
  }
  return made.sort((a, b) => a.value - b.value);
}

function matches(text) {
  return (text.match(/"value":[0-9]*7\b/g) || []).length;
}

http.createServer((request, response) => {
  const text = JSON.stringify(rows(300));
  response.end(`${text} ${matches(text)}\n`);
}).listen(Number(process.argv[2]), '127.0.0.1');
