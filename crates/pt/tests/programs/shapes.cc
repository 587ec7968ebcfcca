// Virtual calls, containers, sorting with a lambda.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <vector>
struct Shape { virtual ~Shape() = default; virtual int area() const = 0; };
struct Square : Shape { int side; explicit Square(int s) : side(s) {} int area() const override { return side * side; } };
struct Strip : Shape { int width; explicit Strip(int w) : width(w) {} int area() const override { return width * 3; } };
int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 30; i++) {
        if (i * 7 % 3) shapes.push_back(std::make_unique<Square>(i)); else shapes.push_back(std::make_unique<Strip>(i));
    }
    std::sort(shapes.begin(), shapes.end(), [](const auto &a, const auto &b) { return a->area() < b->area(); });
    std::map<int, int> counts;
    for (const auto &shape : shapes) counts[shape->area() % 7]++;
    std::printf("%d\n", counts[1]);
}
